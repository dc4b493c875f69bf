"""How many statements frequent requests cost: counts, because times differ between machines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from pit_server.context import Head
from pit_server.services.jobs import jobs
from pit_server.services.users import callers
from tests.support.clusters.head import ONE_DATABASE, Person, Worker

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
    head: Head, anna: Person, node: Worker, monkeypatch: Any
) -> None:
    number = anna.submit()
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
    assert (len(looks), len(of_record)) == (2, 5), (looks, of_record)
