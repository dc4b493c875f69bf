"""Plans are stored, or dropped as stale; nothing is allocated twice."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as assume_given
from hypothesis import strategies as st
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from pit_protocol.states import JobState, NodeState
from pit_server.context import Head
from pit_server.db.models import Allocation, Attempt, Job, Process
from pit_server.scheduler.capacity import Share
from pit_server.scheduler.passes import JobPlacement
from pit_server.scheduler.placement import ProcessPlacement
from pit_server.scheduler.plan import Plan
from pit_server.services.jobs.processes import plan_commit
from pit_server.services.nodes import nodes
from tests.head.jobs.test_lifecycle import held
from tests.support.clusters.head import NOW, ONE_DATABASE, Person, Worker, ended


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node(gpus={"A100": 2})


def a_plan(*numbers: int, unit: str = "A100-0", node_id: int = 1) -> Plan:
    share = Share(None, None, (("a100", unit),))
    return Plan(tuple(JobPlacement(n, (ProcessPlacement(0, 0, node_id, share),)) for n in numbers), {})


def commit(head: Head, plan: Plan) -> list[int]:
    return plan_commit.commit(head.database, plan, head.settings, now=NOW)


@pytest.mark.threat("F23")
def test_the_database_refuses_to_allocate_one_unit_twice(
    head: Head, worker: Worker, a_placed_job: Callable[..., int]
) -> None:
    a_placed_job("[a100]")
    with head.database.read() as session:
        row = session.execute(select(Allocation).where(Allocation.kind == "a100")).scalar_one()
    twin = {
        "process_id": row.process_id,
        "node_id": row.node_id,
        "kind": row.kind,
        "unit": row.unit,
        "amount": 1,
    }
    with pytest.raises(IntegrityError), head.database.write() as session:
        session.execute(insert(Allocation), [twin])
    worker.beat(*(ended(process) for process in worker.orders()))
    with head.database.write() as session:
        session.execute(insert(Allocation), [twin])


def test_a_plan_that_allocates_a_unit_twice_places_only_the_first_job(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    first, second = a_waiting_job("[a100]"), a_waiting_job("[a100]")
    assert commit(head, a_plan(first, second)) == [first]
    record = anna.job(second)
    assert (record["state"], record["processes"]) == ("waiting", [])
    assert "placed" not in [event["event"] for event in record["events"]]
    head.scheduling()
    assert anna.job(second)["state"] == "starting"
    assert sorted(held(head)) == [("a100", "A100-0"), ("a100", "A100-1")]


def test_a_plan_for_a_job_that_has_been_stopped_is_dropped(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    stopped, other = a_waiting_job("[a100]"), a_waiting_job("[a100]")
    anna.stop(stopped)
    assert commit(head, a_plan(stopped, other)) == [other]
    assert len(held(head)) == 1
    assert anna.job(stopped)["processes"] == []


@pytest.mark.threat("F03")
def test_a_plan_committed_twice_places_a_job_once(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    number = a_waiting_job("[a100]")
    assert commit(head, a_plan(number)) == [number]
    assert commit(head, a_plan(number, unit="A100-1")) == []
    assert len(anna.job(number)["processes"]) == 1


def test_a_plan_for_a_node_that_has_gone_offline_is_dropped(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    number = a_waiting_job("[a100]")
    with head.database.write() as session:
        nodes.set_state(session, 1, NodeState.OFFLINE, now=NOW)
    assert commit(head, a_plan(number)) == []
    assert (anna.job(number)["state"], held(head)) == ("waiting", [])


def test_a_job_that_does_not_fit_whole_holds_nothing(
    head: Head, worker: Worker, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int], anna: Person
) -> None:
    a_node("n1", gpus={"A100": 2})
    holder = a_waiting_job("[a100]")
    number = a_waiting_job("2:[2:a100]")
    head.scheduling()
    record = anna.job(number)
    assert record["state"] == "waiting"
    assert record["reason"] == f"needs 4 a100, 3 free; job {holder} holds the others"
    assert len(held(head)) == 1


def test_jobs_on_one_node_get_different_ports(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int]
) -> None:
    for _ in range(5):
        a_waiting_job()
    head.scheduling()
    with head.database.read() as session:
        ports = session.execute(select(Attempt.master_port)).scalars().all()
    assert len(set(ports)) == 5
    assert all(20_000 <= port < 30_000 for port in ports)


def test_a_port_in_use_is_skipped(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the third job's first choice is the first one's port.
    monkeypatch.setattr(plan_commit, "PORTS", 2)
    a_placed_job()
    a_placed_job()
    _, second = worker.orders()
    worker.beat(ended(second))
    a_placed_job()
    with head.database.read() as session:
        ports = session.execute(select(Attempt.master_port).order_by(Attempt.id)).scalars().all()
    assert ports[2] == ports[1] != ports[0]


def test_when_no_port_is_left_the_job_waits_and_the_others_are_placed(
    head: Head,
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
    anna: Person,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan_commit, "PORTS", 1)
    a_node("n0")
    a_node("n1")
    jobs = [a_waiting_job("[]@n0"), a_waiting_job("[]@n0"), a_waiting_job("[]@n1")]
    head.scheduling()
    assert [anna.job(number)["state"] for number in jobs] == ["starting", "waiting", "starting"]


def test_an_offline_node_gets_no_new_job_and_its_reason_says_so(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], anna: Person
) -> None:
    with head.database.write() as session:
        nodes.set_state(session, 1, NodeState.OFFLINE, now=NOW)
    number = a_waiting_job("[a100]@n0")
    head.scheduling()
    assert anna.job(number)["reason"] == "waits for @n0, which is offline"
    worker.beat()
    head.scheduling()
    assert anna.job(number)["state"] == "starting"


REQUESTS = st.sampled_from(
    [
        "[a100]",
        "[2:a100]",
        "1-3:[a100]",
        "2:[h100,2:cpu]",
        "[gpu,mem]",
        "2:[1-2:gpu]",
        "[cpu]@n1",
        "3:[]",
        "[]",
    ]
)


@ONE_DATABASE
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@assume_given(requests=st.lists(REQUESTS, min_size=1, max_size=8), ending=st.integers(0, 3))
def test_every_plan_can_be_committed(
    head: Head,
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
    requests: list[str],
    ending: int,
) -> None:
    """Jobs come, some of them end, and more start in their place; on the same nodes again and again."""
    workers = a_node("n0", gpus={"A100": 2}), a_node("n1", gpus={"A100": 1, "H100": 2})
    for request in requests:
        a_waiting_job(request)
    while _plan_and_commit(head):
        live = [(worker, process) for worker in workers for process in worker.orders()]
        for worker, process in live[: ending + 1]:
            worker.beat(ended(process))
    with head.database.read() as session:
        waiting = set(session.execute(select(Job.id).where(Job.state == JobState.WAITING)).scalars())
    assert head.scheduling.reasons.keys() == waiting
    for worker in workers:
        worker.beat(*(ended(process) for process in worker.orders()))


def _plan_and_commit(head: Head) -> bool:
    """Make a pass; all that it starts must have been stored. Returns whether that is anything."""
    head.scheduling()
    planned = {
        (job.number, process.node_id, unit)
        for job in head.scheduling.latest.placements
        for process in job.processes
        for unit in (*(unit for _, unit in process.share.units), None)
    }
    query = select(Process.job_id, Allocation.node_id, Allocation.unit).join(
        Allocation, Allocation.process_id == Process.id
    )
    with head.database.read() as session:
        stored = {tuple(row) for row in session.execute(query.where(Allocation.released_at.is_(None)))}
    stored |= {(job, node, None) for job, node, _ in stored}
    assert planned <= stored
    return bool(planned)
