"""Job numbers, times and tables as text."""

import time
from collections.abc import Iterator

import click
import pytest

from pit.args.options import flatten, job_number, job_numbers
from pit.ui.plural import plural
from pit.ui.render import ending, records
from pit.ui.tables import Column, Section, render_plain
from pit.ui.times import local_time, parse_begin, parse_local_window, parse_time, short_age, start_text
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.wire import from_json
from tests.support.stubs.head import a_record, an_ended


def test_the_plural_form_depends_on_the_count() -> None:
    assert (plural(1, "byte"), plural(0, "file"), plural(2000, "file")) == (
        "1 byte",
        "0 files",
        "2,000 files",
    )


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-12-01T08:00", "2026-12-01T08:00:00+01:00"),
        ("2026-12-01T08:00Z", "2026-12-01T08:00:00+00:00"),
        ("22:00", "2026-10-24T22:00:00+02:00"),
        ("17:00", "2026-10-25T17:00:00+01:00"),  # the next one; the clocks change before it
        ("12h", "2026-10-25T05:00:00+01:00"),
    ],
)
def test_a_begin_is_sent_with_the_offset_of_the_client(text: str, expected: str) -> None:
    now = parse_time("2026-10-24 18:00", 0)
    assert parse_begin(text, now) == expected


@pytest.mark.usefixtures("berlin")
def test_a_window_is_sent_with_the_offset_of_the_client() -> None:
    assert parse_local_window("2026-12-01T08:00/4h", 0) == "2026-12-01T08:00:00+01:00/4h"
    with pytest.raises(
        ValueError, match="'4h' is not a begin and a length: write 2026-12-01T08:00/4h or 22:00"
    ):
        parse_local_window("4h", 0)


@pytest.mark.parametrize("text", ["2020-01-01", "2020-01-01T00:00+02:00"])
def test_a_begin_in_the_past_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is in the past: write 22:00, 2026-12-01T08:00, or a length"):
        parse_begin(text, parse_time("2026-10-24 18:00", 0))


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-3, "0s"), (12, "12s"), (200, "3m"), (7500, "2h 5m"), (7200, "2h"), (4 * 86400 + 5000, "4d")],
)
def test_ages_are_short(seconds: float, age: str) -> None:
    assert short_age(seconds) == age


@pytest.mark.parametrize("text", ["2026-04-01 17:05:00", "2026-04-01T17:05:00"])
def test_a_rendered_time_can_be_parsed(text: str) -> None:
    assert local_time(parse_time(text, 0)) == "2026-04-01 17:05:00"


def test_a_partial_date_is_its_start() -> None:
    assert local_time(parse_time("2026-04", 0)) == "2026-04-01 00:00:00"


def test_an_age_is_a_time_before_now() -> None:
    assert parse_time("90m", 10_000) == 10_000 - 5400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", "2026-04-01 00:00:00"),
        ("yesterday", "2026-03-31 00:00:00"),
        ("14:00", "2026-04-01 14:00:00"),
        ("9:30:15", "2026-04-01 09:30:15"),
        ("18:00", "2026-03-31 18:00:00"),  # the last one: today's is still to come
    ],
)
def test_a_day_or_a_clock_time_is_the_last_one(text: str, expected: str) -> None:
    now = parse_time("2026-04-01 17:05", 0)
    assert local_time(parse_time(text, now)) == expected


@pytest.mark.parametrize("text", ["", "tomorrow", "25:00", "2026-13", "99999999999999999999w", "-3d"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_time(text, 0)


def test_jobs_are_given_by_number_and_range() -> None:
    assert flatten(tuple(job_numbers(text) for text in ("7", "5-8", "job:3"))) == [7, 5, 6, 8, 3]


@pytest.mark.parametrize(
    "text", ["", "-1", "0", "abc", "1-", "9-3", "1-99999999", "1-2-3", "²", "99999999999"]
)
def test_invalid_job_numbers_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError):
        job_numbers(text)


def test_a_job_number_may_have_a_prefix() -> None:
    assert job_number("job:190") == 190


def test_records_are_aligned() -> None:
    assert records([("Job number", "190"), ("Hash", "c0ffee")]) == "Job number: 190\nHash:       c0ffee"


def test_a_plain_table_counts_hidden_rows() -> None:
    columns = (Column("JOB", right=True), Column("TITLE"))
    table = render_plain(columns, [Section("Waiting", [("7", "a"), ("190", "b")], more=9960)])
    assert table.splitlines() == ["JOB  TITLE", "Waiting", "  7  a", "190  b", "… and 9,960 more"]


def test_a_failed_job_names_its_reason() -> None:
    record = a_record(12, **an_ended("failed"), reason="the remote has no commit c0ffee")
    assert ending(from_json(JobRecord, record)) == "job 12 failed: the remote has no commit c0ffee"


def test_a_stopped_job_did_not_fail() -> None:
    assert ending(from_json(JobRecord, a_record(12, **an_ended("stopped"), reason="stopped by anna"))) == (
        "job 12 was stopped: stopped by anna"
    )


@pytest.mark.parametrize(
    ("starts", "text"),
    [
        ((-50, -20), "starts within a minute"),
        ((10, 59), "starts within a minute"),
        ((30, 2400), "starts within 40 min"),
        ((600, 2350), "starts in 10 to 40 min"),
        ((2310, 2350), "starts in about 40 min"),
        ((600, 20_000), "starts within 6 h"),
        ((4000, 20_000), "starts in 1 to 6 h"),
        ((86400, 86400 * 5), "starts in 1 to 5 days"),
    ],
)
def test_the_start_of_a_job_is_a_range(starts: tuple[float, float], text: str) -> None:
    assert start_text((1000 + starts[0], 1000 + starts[1]), 1000) == text
