"""Numbers, times, tables: small things in words."""

import click
import pytest

from pit.counts import counted
from pit.options import flatten, job_number, job_numbers
from pit.render import ending, records
from pit.tables import Column, Section, render_plain
from pit.times import local_time, parse_time, short_age
from tests.client.stub_head import a_record, an_ended


def test_one_is_no_plural() -> None:
    assert (counted(1, "byte"), counted(0, "file"), counted(2000, "file")) == (
        "1 byte",
        "0 files",
        "2,000 files",
    )


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-3, "0s"), (12, "12s"), (200, "3m"), (7500, "2h 5m"), (7200, "2h"), (4 * 86400 + 5000, "4d")],
)
def test_ages_are_short(seconds: float, age: str) -> None:
    assert short_age(seconds) == age


@pytest.mark.parametrize("text", ["2026-04-01 17:05:00", "2026-04-01T17:05:00"])
def test_a_time_is_read_as_it_is_written(text: str) -> None:
    assert local_time(parse_time(text, 0)) == "2026-04-01 17:05:00"


def test_part_of_a_date_is_its_beginning() -> None:
    assert local_time(parse_time("2026-04", 0)) == "2026-04-01 00:00:00"


def test_an_age_is_a_time_before_now() -> None:
    assert parse_time("90m", 10_000) == 10_000 - 5400


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13", "99999999999999999999w", "-3d"])
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        parse_time(text, 0)


def test_jobs_are_named_by_number_and_range() -> None:
    assert flatten(tuple(job_numbers(text) for text in ("7", "5-8", "job:3"))) == [7, 5, 6, 8, 3]


@pytest.mark.parametrize(
    "text", ["", "-1", "0", "abc", "1-", "9-3", "1-99999999", "1-2-3", "²", "99999999999"]
)
def test_anything_else_names_no_jobs(text: str) -> None:
    with pytest.raises(click.BadParameter):
        job_numbers(text)


def test_a_number_may_say_what_it_is_of() -> None:
    assert job_number("job:190") == 190


def test_records_are_aligned() -> None:
    assert records([("Job number", "190"), ("Hash", "c0ffee")]) == "Job number: 190\nHash:       c0ffee"


def test_a_plain_table_counts_what_it_does_not_show() -> None:
    columns = (Column("JOB", right=True), Column("TITLE"))
    table = render_plain(columns, [Section("Waiting", [("7", "a"), ("190", "b")], more=9960)])
    assert table.splitlines() == ["JOB  TITLE", "Waiting", "  7  a", "190  b", "… and 9,960 more"]


def test_a_failed_job_names_its_reason() -> None:
    record = a_record(12, **an_ended("failed"), reason="the remote has no commit c0ffee")
    assert ending(record) == "job 12 failed: the remote has no commit c0ffee"


def test_a_stopped_job_did_not_fail() -> None:
    assert ending(a_record(12, **an_ended("stopped"), reason="stopped by anna")) == (
        "job 12 was stopped: stopped by anna"
    )
