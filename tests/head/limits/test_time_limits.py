"""Time limits: what a job gets, how it ends by them, who may change them, and jobs that begin later."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pit_protocol.messages.beat import OrderAction, Report, TimeLimit
from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy, ProcessState
from pit_server.context import Head
from pit_server.services.scheduling.run_times import RunTimes
from pit_server.settings import Settings, load
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_submission, ended, running

OVER = "its time limit of 2h is over"


def over(process: int, state: ProcessState = ProcessState.STOPPING) -> Report:
    return Report(process, 1, state, killed_by=KilledBy.TIME, reason=OVER, started_at=time.time())


def at(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat(timespec="seconds")


def test_a_gang_ends_as_one_when_the_time_of_its_first_process_is_over(
    a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person
) -> None:
    nodes = [a_node("n0", cores=1), a_node("n1", cores=1)]
    number = a_placed_job("2:[1:cpu]", time="2h", signal="USR1@120")
    (first,), (second,) = (node.orders() for node in nodes)
    order = nodes[0].orders()[first]
    assert (order.time, order.ran_s) == (TimeLimit(7200, "USR1", 120), None)
    nodes[0].beat(running(first))
    ran_s = nodes[1].orders()[second].ran_s
    assert ran_s is not None and 0 <= ran_s < 60
    assert anna.job(number)["ends_at"] == pytest.approx(time.time() + 7200, abs=60)
    nodes[0].beat(over(first))
    job = anna.job(number)
    assert (job["state"], job["outcome"], job["reason"]) == ("stopping", "timed out", OVER)
    order = nodes[1].orders()[second]
    assert (order.action, order.killed_by) == (OrderAction.STOP, KilledBy.TIME)
    nodes[1].beat(ended(second, None, killed_by=KilledBy.TIME, reason="stopped before it began"))
    nodes[0].beat(ended(first, 0, killed_by=KilledBy.TIME, reason=OVER))
    job = anna.job(number)
    assert (job["state"], job["outcome"], job["letters"]) == ("ended", "timed out", "TIM")
    lines = [line["text"] for line in anna.log(number)["lines"]]
    assert f"stopping: {OVER}" in lines
    assert lines[-1] == f"job {number} timed out: {OVER}"


def test_an_end_by_time_while_the_head_was_away_is_no_success(
    node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job(time="2h")
    (process,) = node.orders()
    node.beat(ended(process, 0, killed_by=KilledBy.TIME, reason=OVER))
    job = anna.job(number)
    assert (job["outcome"], job["reason"]) == ("timed out", OVER)


class TestSettings:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, default_time="1h", max_time="2h")

    @ONE_DATABASE
    def test_a_job_gets_the_default_and_no_more_than_the_maximum(self, node: Worker, anna: Person) -> None:
        assert anna.job(anna.submit())["options"]["time"] == "1h"
        assert anna.job(anna.submit(time="2h"))["options"]["time"] == "2h"
        answer = anna.post("/jobs", json=a_submission(time="3h"))
        assert answer.status_code == 422
        assert (
            answer.json["message"]
            == "a time limit of 3h is more than user anna may give a job, 2h (max_time)"
        )
        assert answer.json["hint"] == "an admin can change it: `pit set user:anna max_time=…`"

    @ONE_DATABASE
    def test_the_default_is_not_above_the_maximum(self, home: Path) -> None:
        (home / "head.toml").write_text('default_time = "3h"\nmax_time = "2h"\n')
        with pytest.raises(Problem, match="default_time must not be longer than max_time, 2h"):
            load(home, {})
        (home / "head.toml").write_text('max_time = "2 hours"\n')
        with pytest.raises(Problem, match="max_time: '2 hours' is not a length of time"):
            load(home, {})


def test_the_owner_shortens_what_runs_and_an_admin_extends_it(
    node: Worker, a_placed_job: Callable[..., int], anna: Person, root: Person
) -> None:
    number = a_placed_job(time="2h")
    (process,) = node.orders()
    node.beat(running(process))
    anna.ok(anna.patch(f"/jobs/{number}", time="90m"))
    order = node.orders()[process]
    assert order.time == TimeLimit(5400)
    answer = anna.patch(f"/jobs/{number}", time="3h")
    assert answer.status_code == 403
    assert answer.json["message"] == f"job {number} has begun: you may shorten its 1h30m, not extend them"
    assert anna.patch(f"/jobs/{number}", time="").status_code == 403
    root.ok(root.patch(f"/jobs/{number}", time="3h"))
    assert node.orders()[process].time == TimeLimit(10_800)
    node.beat(ended(process))
    assert anna.patch(f"/jobs/{number}", time="1h").status_code == 409
    told = [line["text"] for line in anna.log(number)["lines"] if "time limit" in line["text"]]
    assert told == [
        "anna changed the time limit from 2h to 1h30m",
        "root changed the time limit from 1h30m to 3h",
    ]


@ONE_DATABASE
def test_elements_that_run_get_the_new_limit_of_their_array(
    head: Head, node: Worker, a_waiting_job: Callable[..., int], anna: Person, root: Person
) -> None:
    number = a_waiting_job(array="0-1%1", time="2h")
    head.scheduling()
    (process,) = node.orders()
    node.beat(running(process))
    for who, text, seconds in (
        (anna, "1h", 3600),
        (root, "4h", 14_400),
        (root, "", None),
    ):
        who.ok(who.patch(f"/jobs/{number}", time=text))
        limit = node.orders()[process].time
        assert (limit.limit_s if limit else None) == seconds
    assert anna.log(number)["lines"][-1]["text"] == "root changed the time limit from 4h to none"


def test_a_change_wakes_the_held_beat_of_the_node(
    node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job(time="2h")
    (process,) = node.orders()
    node.beat(running(process))
    seen = node.seen
    anna.ok(anna.patch(f"/jobs/{number}", time="1h"))
    assert node.beat().revision > seen


def test_the_owner_of_a_waiting_job_may_also_extend_it(
    node: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    number = a_waiting_job(time="2h")
    assert anna.ok(anna.patch(f"/jobs/{number}", time="1d"))["options"]["time"] == "1d"
    answer = anna.patch(f"/jobs/{number}", time="-1h")
    assert answer.json["message"].startswith("time: '-1h' is not a length of time: write 90s")


def test_a_job_waits_until_its_begin_or_until_that_is_removed(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job(begin=at(20))
    assert anna.job(number)["state"] == "waiting"
    assert f"; `pit set job:{number} begin=` lets it start now" in anna.job(number)["reason"]
    due_s = head.scheduling()
    assert due_s is not None and due_s <= 21
    assert anna.patch(f"/jobs/{number}", begin=at(1)).json["message"] == "begin can only be removed"
    anna.ok(anna.patch(f"/jobs/{number}", begin=""))
    head.scheduling()
    assert anna.job(number)["state"] == "starting"


@ONE_DATABASE
def test_a_begin_in_the_past_queues_nothing(node: Worker, anna: Person) -> None:
    past = at(-3600)
    answer = anna.post("/jobs", json=a_submission(begin=past))
    assert (answer.status_code, answer.json["message"]) == (422, f"--begin {past} is in the past")
    assert anna.get("/jobs").json["total"] == 0


def test_a_limit_is_how_long_a_job_is_planned_to_run() -> None:
    times = RunTimes(86_400.0, {(1, "train"): [300.0] * 3})
    assert times.planned(1, "train") == 300
    assert times.planned(1, "train", 7200.0) == 7200
    assert times.planned(1, "train", 7201.0) == 7800  # rounded up, so that few lengths differ
    assert times.planned_end(1, "train", 1000.0, 2000.0, 7200.0) == 8200
    assert times.planned_end(1, "train", 1000.0, 9000.0, 7200.0) == 9060


def test_a_job_passes_one_that_waits_only_if_it_ends_in_time(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    a_placed_job("[7:cpu]", time="2h")
    waits = a_placed_job("[8:cpu]")
    long, short = a_placed_job("[1:cpu]", time="3h"), a_placed_job("[1:cpu]", time="1h")
    assert anna.job(waits)["state"] == "waiting"
    assert (anna.job(long)["state"], anna.job(short)["state"]) == ("waiting", "starting")
