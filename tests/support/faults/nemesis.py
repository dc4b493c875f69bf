"""Random faults on a cluster of three nodes while jobs run; the checker has the last word.

`run_nemesis.py` is the program for it.
"""

import os
import random
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import requests

from tests.support.clusters.head import a_submission
from tests.support.clusters.local import eventually
from tests.support.faults.cluster import Cluster, Node
from tests.support.servers.postgres import Postgres

NODES = ("n0", "n1", "n2")
IN_FLIGHT = 12  # jobs at a time
LONGEST_FAULT_S = 6.0
CALM_S = 60.0  # after the last fault, within which everything has ended by itself


class Nemesis:
    def __init__(
        self,
        cluster: Cluster,
        seed: int,
        seconds: float,
        pace_s: float = 1.0,
        database: Postgres | None = None,
    ) -> None:
        """`pace_s` is the time between two submissions; without `database` it is SQLite."""
        self.cluster, self._database = cluster, database
        self.recoveries: dict[str, list[float]] = defaultdict(list)  # by kind of fault, in seconds
        self.faults: Counter[str] = Counter()
        self._dice, self._user_dice = random.Random(seed), random.Random(seed + 1)
        self._seconds, self._pace_s = seconds, pace_s
        self._is_over, self._has_failed = threading.Event(), threading.Event()
        self._trouble: list[BaseException] = []

    def run(self) -> None:
        """Break and heal until the time is over; then all jobs must end, and all invariants hold."""
        user = threading.Thread(target=self._guard, args=(self._submit_jobs,))
        user.start()
        end = time.monotonic() + self._seconds
        try:
            while time.monotonic() < end and not self._trouble:
                self._strike()
        except BaseException:
            self._has_failed.set()
            raise
        finally:
            self._is_over.set()
            user.join()
        assert not self._trouble, self._trouble
        numbers = {job.number for job in self.cluster.accepted}
        eventually(lambda: all(self.cluster.record(n)["state"] == "ended" for n in numbers), CALM_S)
        self.cluster.finish()

    def _strike(self) -> None:
        """One or two faults at a time, on different victims."""
        victims = self._dice.sample(("head", *NODES), self._dice.choice((1, 1, 2)))
        healers = {victim: self._begin(victim) for victim in victims}
        time.sleep(self._dice.uniform(0.1, LONGEST_FAULT_S))
        for victim in sorted(victims, key=lambda victim: victim != "head"):  # nodes recover with its help
            healers[victim]()
        eventually(self._is_well)
        time.sleep(self._dice.uniform(0.1, 2.0))

    def _begin(self, victim: str) -> Callable[[], None]:
        """Break something; returns how to heal it."""
        if victim == "head":
            fault = self._dice.choice((self._kill_head, self._crash_head, self._break_database))
        else:
            kinds = (self._kill_worker, self._freeze, self._partition, self._cut, self._lose_answers,
                     self._slow_down, self._cut_power)  # fmt: skip
            fault = self._dice.choice(kinds)
        self.faults[fault.__name__.strip("_").replace("_", " ")] += 1
        print(f"{time.strftime('%H:%M:%S')} {fault.__name__.strip('_')} {victim}", flush=True)
        return fault() if victim == "head" else fault(self.cluster.nodes[victim])  # type: ignore[operator]

    def _kill_head(self) -> Callable[[], None]:
        self.cluster.kill_head()
        return self._start_head

    def _crash_head(self) -> Callable[[], None]:
        """At one of its next commits, before or after it."""
        point = f"{self._dice.choice(('before', 'after'))}:*:{self._dice.randint(5, 12)}"
        self.cluster.kill_head()
        self.cluster.start_head(point)

        def heal() -> None:
            self.cluster.kill_head()
            self._start_head()

        return heal

    def _break_database(self) -> Callable[[], None]:
        if self._database:
            return self._kill_database(self._database)
        other = sqlite3.connect(self.cluster.home / "pit.db", isolation_level=None, timeout=10)
        other.execute("BEGIN EXCLUSIVE")
        return other.close

    def _kill_database(self, database: Postgres) -> Callable[[], None]:
        """A head that has lost its lock with the server ends, and is started again."""
        database.kill()

        def heal() -> None:
            database.start_again()
            eventually(lambda: self.cluster.head_is_gone or self._answers())
            if self.cluster.head_is_gone:
                self._start_head()

        return heal

    def _kill_worker(self, node: Node) -> Callable[[], None]:
        node.kill()
        return lambda: self._start_worker(node, "worker restart")

    def _cut_power(self, node: Node) -> Callable[[], None]:
        node.kill()
        eventually(lambda: self._kill_processes(node) == 0)
        node.environ["PIT_WORKER_BOOT_ID"] = f"boot-{self._dice.randrange(10**9)}"
        return lambda: self._start_worker(node, "node loss")

    def _kill_processes(self, node: Node) -> int:
        found = self.cluster.checker.list_processes(node.spool)
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        return len(found)

    def _freeze(self, node: Node) -> Callable[[], None]:
        node.pause()
        return node.resume

    def _partition(self, node: Node) -> Callable[[], None]:
        node.proxy.partition()
        return lambda: self._reconnect(node)

    def _cut(self, node: Node) -> Callable[[], None]:
        node.proxy.cut()
        return lambda: self._reconnect(node)

    def _lose_answers(self, node: Node) -> Callable[[], None]:
        node.proxy.down.loses = True

        def heal() -> None:
            node.proxy.down.loses = False
            node.proxy.reset()

        return heal

    def _slow_down(self, node: Node) -> Callable[[], None]:
        node.proxy.up.delay_s = node.proxy.down.delay_s = self._dice.uniform(0.05, 0.5)
        node.proxy.up.bytes_per_s = 20_000
        return node.proxy.heal

    def _start_head(self) -> None:
        begun = time.monotonic()
        self.cluster.start_head()
        eventually(lambda: self._ask("/jobs?limit=1"))
        self.recoveries["head restart"].append(time.monotonic() - begun)

    def _start_worker(self, node: Node, what: str) -> None:
        epoch = self._epoch(node)
        node.start()
        begun = time.monotonic()
        if not self._answers():
            return  # the head is away as well, so there is nothing to measure
        eventually(lambda: (now := self._ask(f"/nodes/{node.name}")) and now["epoch"] > epoch)
        if what == "node loss":
            # Processes of the boot before are resolved when the head has heard of them.
            eventually(lambda: not self.cluster.checker.list_processes(node.spool))
        self.recoveries[what].append(time.monotonic() - begun)

    def _reconnect(self, node: Node) -> None:
        was_offline = self._answers() and node.state == "offline"
        begun = time.monotonic()
        node.proxy.heal()
        if was_offline:
            eventually(lambda: (now := self._ask(f"/nodes/{node.name}")) and now["state"] == "online")
            self.recoveries["partition heal"].append(time.monotonic() - begun)

    def _is_well(self) -> bool:
        """All programs run and know each other."""
        for node in self.cluster.nodes.values():
            code = node.worker.poll() if node.worker else None
            assert code is None, f"the worker of {node.name} has exited with {code}"
        found = self._ask("/nodes")
        return bool(found) and all(node["state"] == "online" for node in found["nodes"])

    def _answers(self) -> bool:
        return self._ask("/jobs?limit=1") is not None

    def _epoch(self, node: Node) -> int:
        known = self._ask(f"/nodes/{node.name}")
        return int(known["epoch"]) if known else 0

    def _ask(self, path: str) -> Any:
        try:
            answer = self.cluster.call("GET", path, timeout_s=15)
        except requests.RequestException:
            return None
        return answer.json() if answer.status_code == 200 else None

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # told by the main thread
            self._trouble.append(error)

    def _submit_jobs(self) -> None:
        """A user with a patient client: a submission is repeated with its key until it is answered."""
        live: list[int] = []
        while not self._is_over.wait(self._pace_s):
            live = [number for number in live if self._is_live(number)]
            if len(live) < IN_FLIGHT:
                live.append(self._submit())
            if live and self._user_dice.random() < 0.1:
                with suppress(requests.RequestException):
                    self.cluster.stop(self._user_dice.choice(live))

    def _is_live(self, number: int) -> bool:
        record = self._ask(f"/jobs/{number}")
        return record is None or record["state"] != "ended"

    def _submit(self) -> int:
        dice, ledger = self._user_dice, self.cluster.ledger
        command = ledger.script(lines=dice.randint(1, 60), code=dice.choice((0, 0, 0, 3)))
        body = a_submission(command=command, request=dice.choice(("[]", "[]", "2:[]", "[1:cpu]")))
        while not self._has_failed.is_set():
            with suppress(requests.RequestException):
                answer = self.cluster.call("POST", "/jobs", timeout_s=15, json=body)
                if answer.status_code in (200, 201):
                    return self.cluster.accept(body["key"], int(answer.json()["number"]))
                assert answer.status_code == 503, answer.text
            time.sleep(0.2)
        raise AssertionError("the nemesis has failed")

    def report(self) -> str:
        """What was done, and how long recovery took."""
        records = [
            self.cluster.record(number) for number in sorted({j.number for j in self.cluster.accepted})
        ]
        lost = sum(record["state"] != "ended" for record in records)
        double = sum(run.starts > 1 for run in self.cluster.ledger.runs())
        ends = [
            sum(event["to"] == "ended" and event["event"] != "ended" for event in record["events"])
            for record in records
        ]
        lines = [
            f"{len(records)} jobs under {sum(self.faults.values())} faults: lost {lost}, double {double}, "
            f"stale accepted {sum(count > 1 for count in ends)}",
            "outcomes: " + _counts(Counter(record["outcome"] for record in records)),
            "faults: " + _counts(self.faults),
        ]
        for kind, values in sorted(self.recoveries.items()):
            values.sort()
            p50, p99 = values[len(values) // 2], values[int(len(values) * 0.99)]
            lines.append(f"recovery from {kind}: p50 {p50:.1f} s, p99 {p99:.1f} s of {len(values)}")
        return "\n".join(lines)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counter.items()))
