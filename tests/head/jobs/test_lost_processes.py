"""Nodes that do not come back: their processes are lost, and stopped if the node returns."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pit_protocol.messages.beat import Order, OrderAction
from pit_server.background import node_watch
from pit_server.background.node_watch import NodeWatch
from pit_server.background.scheduling import Scheduling
from pit_server.context import Head
from pit_server.settings import Settings
from tests.head.jobs.test_lifecycle import held, illegal_moves
from tests.head.jobs.test_races import InThread, all_at_once
from tests.head.nodes.test_node_watch import Clock
from tests.support.clusters.head import Person, Worker, a_chunk, an_inventory, ended, running

LOST_AFTER_S = 60.0
SILENCE_S = LOST_AFTER_S + 10.0 + 5.0  # plus grace period and margin
SILENT = "is lost: its node n0 had no contact with the head for more than 60 s"
REMOVED = "is lost: its node n0 was removed as lost by root"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, lost_after_s=LOST_AFTER_S)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(node_watch, "time", clock)
    return clock


@pytest.fixture
def head(clock: Clock, head: Head) -> Head:
    return head


def fall_silent(head: Head, clock: Clock, seconds: float = SILENCE_S) -> None:
    clock.seconds += 30
    head.node_watch()
    clock.seconds += seconds - 30
    head.node_watch()


def restarted(head: Head) -> NodeWatch:
    return NodeWatch(head.database, head.settings.offline_after_s)


def specs(worker: Worker) -> list[Any]:
    return [order for order in worker.orders().values() if order.spec]


def give_up(root: Person, name: str = "n0") -> Any:
    return root.ok(root.delete(f"/nodes/{name}?lost=yes"))


class TestByTime:
    @pytest.mark.threat("F17")
    def test_a_process_is_lost_when_it_can_no_longer_run_and_not_before(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person,
    ) -> None:  # fmt: skip
        worker = a_node()
        number = a_placed_job()
        (process,) = worker.orders()
        worker.beat(running(process))
        clock.seconds += 30
        assert head.node_watch() == SILENCE_S - 30
        clock.seconds += SILENCE_S - 31
        assert head.node_watch() == 1.0
        assert anna.job(number)["state"] == "running"
        clock.seconds += 1
        assert head.node_watch() is None
        record = anna.job(number)
        assert (record["state"], record["outcome"]) == ("ended", "lost")
        assert record["reason"] == f"worker 0 {SILENT}"
        assert record["processes"][0]["killed_by"] == "node"
        assert illegal_moves(record) == []

    def test_the_other_processes_of_the_job_are_stopped(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person,
    ) -> None:  # fmt: skip
        gone, there = a_node("n0", gpus={"A100": 1}), a_node("n1", gpus={"A100": 1})
        number = a_placed_job("2:[a100]")
        (lost,), (other,) = gone.orders(), there.orders()
        gone.beat(running(lost))
        there.beat(running(other))
        clock.seconds += SILENCE_S - 30
        there.beat(running(other))
        head.node_watch()
        clock.seconds += 29
        there.beat(running(other))
        clock.seconds += 1
        head.node_watch()
        assert anna.job(number)["state"] == "stopping"
        assert there.orders()[other].action is OrderAction.STOP
        there.beat(ended(other, None, signal=15, killed_by="job"))
        record = anna.job(number)
        assert (record["state"], record["outcome"]) == ("ended", "lost")
        assert record["reason"].endswith(SILENT)

    def test_a_node_that_returns_in_time_keeps_its_processes(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person,
    ) -> None:  # fmt: skip
        worker = a_node()
        number = a_placed_job()
        (process,) = worker.orders()
        fall_silent(head, clock, SILENCE_S - 1)
        worker.beat(running(process))
        clock.seconds += 29
        assert head.node_watch() == 1.0
        assert anna.job(number)["state"] == "running"

    def test_a_job_that_was_being_stopped_ends_as_stopped(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person,
    ) -> None:  # fmt: skip
        a_node()
        number = a_placed_job("3:[]")
        anna.stop(number)
        fall_silent(head, clock)
        assert (anna.job(number)["state"], anna.job(number)["outcome"]) == ("ended", "stopped")

    def test_a_restart_of_the_head_restarts_the_timeout_of_an_offline_node(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person,
    ) -> None:  # fmt: skip
        a_node()
        number = a_placed_job()
        fall_silent(head, clock, 40)
        again = restarted(head)
        clock.seconds += SILENCE_S - 1
        assert again() == 1.0
        assert anna.job(number)["state"] == "starting"
        clock.seconds += 1
        again()
        assert anna.job(number)["outcome"] == "lost"

    def test_each_process_is_lost_by_the_lease_that_it_got(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        a_waiting_job: Callable[..., int], anna: Person,
    ) -> None:  # fmt: skip
        worker = a_node()
        before = a_placed_job()
        after = a_waiting_job()
        Scheduling(head.database, replace(head.settings, lost_after_s=20.0, grace_s=1.0))()
        leases = {order.spec.job: (order.spec.lease_s, order.spec.grace_s) for order in specs(worker)}
        assert leases == {before: (54.0, 10.0), after: (18.0, 1.0)}
        fall_silent(head, clock, 31)
        assert (anna.job(before)["state"], anna.job(after)["outcome"]) == ("starting", "lost")
        clock.seconds += SILENCE_S - 31
        assert head.node_watch() is None
        assert anna.job(before)["outcome"] == "lost"


class TestByAnAdmin:
    def test_processes_on_a_removed_node_are_lost(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person, root: Person,
    ) -> None:  # fmt: skip
        worker = a_node()
        number = a_placed_job("2:[]")
        worker.beat(*map(running, worker.orders()))
        fall_silent(head, clock, 30)
        assert give_up(root) == {"name": "n0", "lost": [number]}
        record = anna.job(number)
        assert (record["outcome"], record["reason"]) == ("lost", f"worker 0 {REMOVED}")
        assert illegal_moves(record) == []
        assert root.get("/nodes/n0").status_code == 404
        entry = root.get("/audit", query_string={"object": "node:n0"}).json["entries"][0]
        assert (entry["actor"], entry["act"]) == ("root", "remove as lost")

    def test_an_online_node_cannot_be_removed_as_lost(
        self, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], anna: Person, root: Person
    ) -> None:
        a_node()
        number = a_placed_job()
        answer = root.delete("/nodes/n0?lost=yes")
        assert (answer.status_code, answer.json["code"]) == (409, "is_online")
        assert answer.json["message"] == "node n0 is online, so its processes cannot be marked lost"
        assert anna.job(number)["state"] == "starting"

    def test_the_refusal_to_remove_a_silent_node_suggests_lost(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        root: Person,
    ) -> None:  # fmt: skip
        a_node()
        a_placed_job()
        assert "--lost" not in root.delete("/nodes/n0").json["hint"]
        fall_silent(head, clock, 30)
        answer = root.delete("/nodes/n0").json
        assert answer["message"] == "node n0 is in use: job 1 has processes there, and it is offline"
        assert answer["hint"] == (
            "`pit remove node:n0 --drain` waits for their end; if the node will never come back, "
            "`pit remove node:n0 --lost` marks them lost, and stops them should it return"
        )

    def test_only_an_admin_may_remove_it(self, head: Head, clock: Clock, a_node: Callable[..., Worker],
                                         a_user: Callable[..., Person]) -> None:  # fmt: skip
        a_node()
        fall_silent(head, clock, 30)
        assert a_user("berta").delete("/nodes/n0?lost=yes").status_code == 403

    def test_its_worker_can_connect_until_everything_is_stopped(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person, root: Person,
    ) -> None:  # fmt: skip
        worker = a_node(gpus={"A100": 1})
        number = a_placed_job("[a100]")
        (process,) = worker.orders()
        worker.beat(running(process))
        waiting = a_placed_job("[a100]")
        fall_silent(head, clock, 30)
        give_up(root)
        worker.hello(an_inventory(gpus={"A100": 1}))
        (order,) = worker.beat(running(process)).orders
        assert (order.process, order.action) == (process, OrderAction.STOP)
        (order,) = worker.beat(ended(process, 0)).orders
        assert order.action is OrderAction.FORGET
        head.scheduling()
        assert anna.job(waiting)["state"] == "waiting"  # the node gets no new jobs
        worker.beat()
        assert worker.post("/node/session", json={}).status_code == 401
        assert anna.job(number)["outcome"] == "lost"

    def test_the_name_can_be_reused_and_the_old_token_is_refused(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        root: Person,
    ) -> None:  # fmt: skip
        worker = a_node()
        a_placed_job()
        fall_silent(head, clock, 30)
        give_up(root)
        root.ok(root.put("/nodes/n0"))
        assert worker.post("/node/session", json={}).status_code == 401


class TestReturn:
    def lose(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
    ) -> tuple[Worker, int, int]:
        worker = a_node(gpus={"A100": 1})
        number = a_placed_job("[a100]")
        (process,) = worker.orders()
        worker.beat(running(process), chunks=[a_chunk(process, b"one\n")])
        fall_silent(head, clock)
        return worker, number, process

    @pytest.mark.threat("F17")
    def test_a_gpu_is_released_only_when_the_node_reports_that_nothing_runs(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person,
    ) -> None:  # fmt: skip
        worker, _, process = self.lose(head, clock, a_node, a_placed_job)
        next_one = a_placed_job("[a100]")
        worker.hello(an_inventory(gpus={"A100": 1}))
        head.scheduling()
        worker.beat(wait_s=0.01)  # it only waits for orders, without reports
        head.scheduling()
        worker.beat(running(process))
        head.scheduling()
        assert anna.job(next_one)["state"] == "waiting"
        assert held(head) == [("a100", "A100-0")]
        worker.beat(ended(process, None, signal=15))
        head.scheduling()
        assert anna.job(next_one)["state"] == "starting"

    @pytest.mark.threat("F16")
    def test_output_written_while_offline_reaches_the_log(
        self, head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
        anna: Person,
    ) -> None:  # fmt: skip
        worker, number, process = self.lose(head, clock, a_node, a_placed_job)
        assert _order(worker.beat(running(process, log_size=12)).orders) == (OrderAction.STOP, 4)
        # No `forget` before the rest of the output has arrived.
        assert _order(worker.beat(ended(process, log_size=12)).orders) == (OrderAction.STOP, 4)
        late = worker.beat(ended(process, log_size=12), chunks=[a_chunk(process, b"two\nend\n", offset=4)])
        assert _order(late.orders) == (OrderAction.FORGET, 12)
        lines = [line["text"] for line in anna.log(number)["lines"]]
        assert lines.index("one") < lines.index("two") < lines.index("end")
        assert anna.job(number)["outcome"] == "lost"

    def test_an_unknown_process_need_not_send_its_output(self, a_node: Callable[..., Worker]) -> None:
        worker = a_node()
        assert _order(worker.beat(running(99, log_size=10_000_000)).orders) == (OrderAction.STOP, 10_000_000)


def test_a_node_that_returns_while_it_is_removed_ends_each_process_once(
    head: Head, clock: Clock, a_node: Callable[..., Worker], a_placed_job: Callable[..., int],
    anna: Person, root: Person, in_thread: InThread,
) -> None:  # fmt: skip
    worker = a_node()
    numbers = [a_placed_job() for _ in range(6)]
    processes = list(worker.orders())
    fall_silent(head, clock, 30)
    clock.seconds += SILENCE_S
    all_at_once(
        in_thread,
        [
            head.node_watch,
            lambda: root.delete("/nodes/n0?lost=yes"),
            lambda: worker.beat(*(ended(process, 0) for process in processes)),
            *(lambda number=number: anna.stop(number) for number in numbers[:3]),
        ],
    )
    for number in numbers:
        record = anna.job(number)
        assert record["state"] == "ended"
        assert record["outcome"] in ("lost", "succeeded", "stopped")
        assert [event["event"] for event in record["events"]].count("settled") == 1
        assert illegal_moves(record) == []


def _order(orders: tuple[Order, ...]) -> tuple[OrderAction, int]:
    (order,) = orders
    return order.action, order.log_size
