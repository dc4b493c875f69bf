"""Lengths of time, signals and moments as users write them."""

import pytest

from pit_protocol.durations import parse_duration, parse_seconds, render_duration
from pit_protocol.job_options import JobOptions, check_text, check_time
from pit_protocol.job_times import parse_moment, parse_signal
from pit_protocol.problem import Problem


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("2h", 7200), ("1h30m", 5400), ("1d12h", 129_600)]
)
def test_a_length_of_time_is_read_and_written(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(render_duration(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "2", "-2h", "2 h", "h", "2x", "0s", "1.5h", "99999999w", "２h"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a length of time: write 90s"):
        parse_duration(text)


def test_only_where_it_is_clear_a_number_is_in_seconds() -> None:
    assert parse_seconds("120") == 120
    assert parse_signal("USR1@120") == parse_signal("sigusr1@2m") == ("USR1", 120)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("time", "-5m", "--time: '-5m' is not a length of time"),
        ("signal", "FOO@5", "--signal: 'FOO' is not a signal that it sends: write one of HUP"),
        ("signal", "KILL@5", "--signal: 'KILL' is not a signal that it sends"),
        ("signal", "USR1", "--signal: 'USR1' does not say when: write USR1@120"),
        ("signal", "USR1@-5", "--signal: '-5' is not a length of time"),
        ("begin", "2026-12-01T08:00", "--begin: '2026-12-01T08:00' is not a time with its offset"),
    ],
)
def test_bad_times_get_a_sentence(name: str, text: str, sentence: str) -> None:
    with pytest.raises(Problem) as caught:
        check_text(name, text)
    assert sentence in caught.value.message


def test_a_moment_has_its_offset() -> None:
    assert parse_moment("2026-12-01T08:00+01:00") == parse_moment("2026-12-01T07:00Z")


def test_a_signal_needs_a_limit_that_is_longer() -> None:
    with pytest.raises(Problem, match="--signal needs a time limit"):
        check_time(JobOptions(signal="USR1@120"))
    with pytest.raises(Problem, match="is 2m before the end, and the job runs for 90s at most"):
        check_time(JobOptions(signal="USR1@120", time="90s"))
    check_time(JobOptions(signal="USR1@120", time="10m"))
