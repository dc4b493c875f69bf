"""How many statements frequent requests cost: counts, because times differ between machines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, select

from pit_server.context import Head
from pit_server.db import memo
from pit_server.db.models import Alias, Job
from pit_server.services.jobs import jobs
from pit_server.services.nodes.aliases import kind_names
from pit_server.services.users import callers
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_chunk, ended, prepare

pytestmark = ONE_DATABASE


@contextmanager
def count(head: Head) -> Iterator[list[str]]:
    """The statements that are executed meanwhile, without BEGIN."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if not statement.startswith("BEGIN"):
            found.append(statement)

    event.listen(head.database.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(head.database.engine, "before_cursor_execute", note)


@pytest.fixture
def remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What seldom changes is read once, however slow the machine is."""
    monkeypatch.setattr(memo, "MAX_AGE_S", 1e9)
    monkeypatch.setattr(callers, "MAX_AGE_S", 1e9)


def test_a_token_is_read_once_for_a_burst_of_requests(head: Head, anna: Person) -> None:
    anna.get("/me")
    with count(head) as first:
        anna.get("/tokens")
    with count(head) as second:
        anna.get("/tokens")
    assert [len(first), len(second)] == [1, 1], (first, second)


def test_a_token_is_read_again_when_access_has_changed(root: Person, a_user: Callable[..., Person]) -> None:
    jill = a_user("jill")
    assert jill.get("/me").status_code == 200
    root.ok(root.patch("/users/jill", active="no"))
    assert jill.get("/me").status_code == 403
    root.ok(root.patch("/users/jill", active="yes"))
    assert jill.get("/me").status_code == 200
    [token] = jill.get("/tokens").json["tokens"]
    jill.delete(f"/tokens/{token['id']}")
    assert jill.get("/me").status_code == 401


def test_a_token_is_read_again_after_a_second(head: Head, anna: Person, monkeypatch: Any) -> None:
    """A command at the head's console writes to the database without the head's knowledge."""
    anna.get("/me")
    monkeypatch.setattr(callers, "MAX_AGE_S", 0.0)
    with count(head) as found:
        anna.get("/tokens")
    assert len(found) == 2


def test_waiting_for_a_job_reads_its_state_alone(
    head: Head, anna: Person, node: Worker, monkeypatch: Any, remembers: None
) -> None:
    number = anna.submit()
    anna.get(f"/jobs/{number}")
    with count(head) as of_record:
        anna.get(f"/jobs/{number}")
    find_state, states = jobs.find_state, list[str]()

    def look(*arguments: Any) -> Any:
        states.append(find_state(*arguments))
        if len(states) == 1:
            anna.ok(anna.stop(number))
        return states[-1]

    monkeypatch.setattr(jobs, "find_state", look)
    with count(head) as found:
        record = anna.ok(anna.get(f"/jobs/{number}?wait_s=10"))
    assert (states, record["outcome"]) == (["preparing", "ended"], "stopped")
    looks = [statement for statement in found if statement.startswith("SELECT job.state \n")]
    assert (len(looks), len(of_record)) == (2, 3), (looks, of_record)


def run(head: Head, worker: Worker) -> int:
    """Let the scheduler start what fits, and all of it end well; returns how many processes that were."""
    head.scheduling()
    orders = worker.orders()
    worker.beat(
        *(ended(process, log_size=5) for process in orders),
        chunks=[a_chunk(process, b"done\n") for process in orders],
    )
    return len(orders)


def test_an_element_of_an_array_costs_less_than_two_statements(
    head: Head, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int], remembers: None
) -> None:
    worker = a_node(cores=32, memory_mib=2**20)
    number = a_waiting_job(array="0-129")
    assert run(head, worker) == 64  # the first ones fill what is remembered
    with count(head) as found:
        assert run(head, worker) == 64
    assert len(found) < 2 * 64, found
    assert run(head, worker) == 2
    with head.database.read() as session:
        assert session.execute(select(Job.outcome).where(Job.id == number)).scalar_one() == "succeeded"


def test_what_is_remembered_is_read_again_after_a_change(head: Head, root: Person, remembers: None) -> None:
    def names() -> dict[str, str]:
        with head.database.read() as session:
            return kind_names(session).kinds()

    assert names() == {}
    root.ok(root.put("/aliases/big", name="NVIDIA A100"))
    assert names() == {"nvidiaa100": "big"}
    with head.database.write() as session:
        session.add(Alias(name="a100", model="NVIDIA A100"))
        session.flush()
        assert kind_names(session).kinds() == {"nvidiaa100": "a100", "big": "a100"}, "its own change"
        session.rollback()
    assert names() == {"nvidiaa100": "big"}


def test_a_single_job_among_others_costs_at_most_24_statements(
    head: Head, anna: Person, a_node: Callable[..., Worker], remembers: None
) -> None:
    """From its submission to the record of its end, for a client that waits for it."""
    worker = a_node(cores=32, memory_mib=2**20)
    with count(head) as found:
        for jobs_each in (1, 10):  # the first one fills what is remembered
            found.clear()
            numbers = [anna.submit() for _ in range(jobs_each)]
            for number in numbers:
                prepare(head, number)
            assert run(head, worker) == jobs_each
            records = [anna.ok(anna.get(f"/jobs/{number}?wait_s=10")) for number in numbers]
            assert {record["outcome"] for record in records} == {"succeeded"}
    assert len(found) <= 24 * 10, (len(found), found)
