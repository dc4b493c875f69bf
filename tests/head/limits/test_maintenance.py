"""Maintenance windows: planned around, begun and over by themselves, shown, and removed."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import update

from pit_server.context import Head
from pit_server.db.models import Node
from tests.support.clusters.head import ONE_DATABASE, Person, Worker

HOUR = 3600.0


def a_window(start_s: float, length: str) -> str:
    return f"{datetime.fromtimestamp(time.time() + start_s, UTC).isoformat(timespec='seconds')}/{length}"


def shift(head: Head, seconds: float) -> None:
    """Let the window begin and end earlier, as if time had passed."""
    start, end = Node.maintenance_start - seconds, Node.maintenance_end - seconds
    with head.database.write() as session:
        session.execute(update(Node).values(maintenance_start=start, maintenance_end=end))


def test_only_a_job_that_ends_before_the_window_starts_there(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person, root: Person
) -> None:
    root.ok(root.patch("/nodes/n0", maintenance=a_window(2 * HOUR, "4h")))
    long, unlimited = a_placed_job(time="3h"), a_placed_job()
    short = a_placed_job(time="1h")
    assert [anna.job(number)["state"] for number in (long, unlimited, short)] == [
        "waiting",
        "waiting",
        "starting",
    ]
    reason = "would not end before the maintenance of n0; a shorter --time lets it start"
    assert anna.job(long)["reason"] == reason
    root.ok(root.patch("/nodes/n0", maintenance=""))
    head.scheduling()
    assert anna.job(long)["state"] == "starting"


def test_a_window_drains_its_node_and_ends_by_itself(
    head: Head, node: Worker, a_placed_job: Callable[..., int], anna: Person, root: Person
) -> None:
    running = a_placed_job(time="1h")
    root.ok(root.patch("/nodes/n0", maintenance=a_window(2 * HOUR, "4h")))
    assert root.get("/nodes/n0").json["state"] == "online"
    shift(head, 3 * HOUR)
    shown = root.get("/nodes/n0").json
    assert (shown["state"], shown["reason"][:18]) == ("draining", "maintenance until ")
    number = a_placed_job(time="1m")
    assert anna.job(number)["state"] == "waiting"
    assert "n0 is draining (maintenance until " in anna.job(number)["reason"]
    assert anna.job(running)["state"] == "starting"
    shift(head, 4 * HOUR)
    shown = root.get("/nodes/n0").json
    assert (shown["state"], shown["reason"], shown["maintenance"]) == ("online", "", "")
    head.scheduling()
    assert anna.job(number)["state"] == "starting"


def test_a_job_goes_to_a_node_without_a_window(
    a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person, root: Person
) -> None:
    a_node("n0")
    a_node("n1")
    root.ok(root.patch("/nodes/n0", maintenance=a_window(HOUR, "4h")))
    number = a_placed_job()
    assert anna.job(number)["processes"][0]["node"] == "n1"


@ONE_DATABASE
def test_a_window_is_shown_and_bad_ones_get_a_sentence(node: Worker, anna: Person, root: Person) -> None:
    shown = root.ok(root.patch("/nodes/n0", maintenance="2126-12-01T08:00+01:00/4h"))
    assert shown["maintenance"] == "2126-12-01T07:00:00+00:00/4h"
    assert anna.patch("/nodes/n0", maintenance="").status_code == 403
    for text, sentence in {
        "2126-12-01T08:00/4h": "is not a time with its offset",
        "2126-12-01T08:00Z": "is not a begin and a length",
        "2126-12-01T08:00Z/-4h": "is not a length of time",
        "2020-12-01T08:00Z/4h": "that maintenance of n0 would be over: it ended at 2020-12-01 12:00 UTC",
    }.items():
        answer = root.patch("/nodes/n0", maintenance=text)
        assert (answer.status_code, answer.json["code"]) == (422, "bad_maintenance")
        assert sentence in answer.json["message"]
    assert root.get("/nodes/n0").json["maintenance"] == shown["maintenance"]
