"""What must hold after every fault, checked against the ledger that the jobs wrote themselves.

I1 a submission that was acknowledged is one job; I2 an ended job has one terminal event; I3 a process is
started once, and attempts of a job do not overlap; I4 allocations never exceed a node, and a unit is held
once; I5 nothing of an ended job is left; I6 the log is what was printed, or its gap is marked; I7 the
exit code is the true one; I8 the database is intact; I9 every move is legal and in the event table.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import docker
from sqlalchemy import select, text

from pit_protocol.states import (
    JOB_MOVES,
    PROCESS_MOVES,
    JobEvent,
    JobState,
    KilledBy,
    ProcessEvent,
    ProcessState,
)
from pit_protocol.system.procfs import read_stat
from pit_server.db.database import Database
from pit_server.db.models import Allocation, Attempt, Event, Job, Node, Process
from pit_server.services import cluster
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.log_stream import process_log
from pit_server.wakeups import Wakeups
from tests.support.clusters.local import eventually
from tests.support.faults.ledger import Ledger, Run

SUPERVISORS = ("pit-supervisor", "pit-init")  # names of processes
CLEAN_S = 30.0  # within which nothing of an ended job is left
OF_PROCESSES = {event.value for event in ProcessEvent}


class Accepted(NamedTuple):
    """A submission that the head has answered with success."""

    key: str
    number: int


class Checker:
    def __init__(self, settings: Settings, ledger: Ledger, place: Path) -> None:
        self._ledger, self._place = ledger, place
        self._data = DataRoot(settings.root)
        self._database = Database(settings.sqlalchemy_url, Wakeups())
        with self._database.read() as session:
            self.cluster = cluster.find_id(session)
        self.engine: docker.DockerClient | None = None  # that runs the jobs; None: they are processes
        self.has_true_times = True  # False: the head's clock jumped, so times do not order what happened

    def reopen(self) -> None:
        """Look at another database in the same place."""
        self._database.dispose()

    def check(self, accepted: Sequence[Accepted]) -> None:
        with self._database.read() as session:
            jobs = {row.id: row for row in session.execute(select(Job)).scalars()}
            processes = {row.id: row for row in session.execute(select(Process)).scalars()}
            events = list(session.execute(select(Event).order_by(Event.id)).scalars())
            allocations = list(session.execute(select(Allocation)).scalars())
            nodes = {row.id: row for row in session.execute(select(Node)).scalars()}
            attempts = {row.id: row.number for row in session.execute(select(Attempt.id, Attempt.number))}
        check_submissions(accepted, jobs)
        check_events(jobs, processes, events)
        check_starts(self._ledger.runs())
        if self.has_true_times:
            check_capacity(nodes, allocations, events)
        self._check_processes(processes.values(), attempts)
        self._check_database()

    def await_clean(self, nodes: Iterable[Any]) -> None:
        """I5: wait until no process, spool entry, mount or allocation of an ended job is left."""
        spools = [node.spool for node in nodes]
        eventually(lambda: not self.leftovers(spools), CLEAN_S)

    def leftovers(self, spools: Iterable[Path]) -> list[str]:
        found = [f"process {pid}" for pid in self.list_processes()]
        if self.engine:
            found += [f"container {names['Names']}" for names in self._containers(is_running=False)]
        for spool in spools:
            found += [str(path) for path in spool.glob("[0-9]*") if path.is_dir()]
        # The place itself may be a mount of the test; what is below belongs to jobs.
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        found += [line for line in mounts if f"{self._place}/spool" in line and "/attempts/" in line]
        with self._database.read() as session:
            held = select(Allocation.process_id).where(Allocation.released_at.is_(None))
            found += [f"allocation of process {row}" for row in session.execute(held).scalars()]
        return found

    def kill_leftovers(self) -> None:
        """So that a failed test leaves nothing behind."""
        for pid in self.list_processes():
            os.kill(pid, signal.SIGKILL)
        self._database.dispose()

    def list_processes(self, spool: Path | None = None) -> list[int]:
        """Processes of jobs, after their supervisors: all of them, or those of one node."""
        if self.engine:
            return [
                pid
                for found in self._containers(spool)
                if (pid := self.engine.api.inspect_container(found["Id"])["State"]["Pid"])
            ]
        marker = f"PIT_COOKIE={self.cluster}-".encode()
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                environ = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
                is_there = spool is None or os.fsencode(spool) in environ + (entry / "cmdline").read_bytes()
                if marker in environ and is_there:
                    found.append(int(entry.name))
        return [*sorted({pid for member in found for pid in _supervisors(member)}), *found]

    def _containers(self, spool: Path | None = None, *, is_running: bool = True) -> list[Any]:
        assert self.engine is not None
        label = f"pit.spool={spool}" if spool else f"pit.cluster={self.cluster}"
        return list(self.engine.api.containers(all=not is_running, filters={"label": label}))

    def _check_processes(self, processes: Iterable[Process], attempts: dict[int, int]) -> None:
        """I6 and I7, for each process that the ledger has seen."""
        runs = {(run.job, run.attempt, run.rank): run for run in self._ledger.runs()}
        for process in processes:
            number = attempts[process.attempt_id]
            run = runs.get((process.job_id, number, process.rank))
            log = process_log(self._data, process.job_id, number, process.group_index, process.process_index)
            if run is None:
                continue  # it never started, or its command keeps no ledger
            check_exit(process, run)
            is_complete = process.killed_by not in (KilledBy.NODE, KilledBy.REBOOT)
            check_log(log.pread(0, log.size()), run, is_complete=is_complete)

    def _check_database(self) -> None:
        """I8."""
        with self._database.read() as session:
            if self._database.is_sqlite:
                assert session.execute(text("PRAGMA integrity_check")).scalars().all() == ["ok"]
                assert session.execute(text("PRAGMA foreign_key_check")).all() == []
                return
            session.execute(text("CREATE EXTENSION IF NOT EXISTS amcheck"))
            indexes = "SELECT bt_index_check(c.oid, true) FROM pg_class c JOIN pg_am a ON a.oid = c.relam"
            owned = "c.relkind = 'i' AND c.relnamespace = 'public'::regnamespace"
            session.execute(text(f"{indexes} WHERE a.amname = 'btree' AND {owned}"))


def check_submissions(accepted: Sequence[Accepted], jobs: dict[int, Job]) -> None:
    """I1."""
    for key, number in accepted:
        found = [job.id for job in jobs.values() if job.submission_key == key]
        assert found == [number], f"submission {key} was accepted as job {number}, and is {found}"
    numbers: dict[str, set[int]] = defaultdict(set)
    for key, number in accepted:
        numbers[key].add(number)
    assert all(len(found) == 1 for found in numbers.values()), numbers


def check_events(jobs: dict[int, Job], processes: dict[int, Process], events: Sequence[Event]) -> None:
    """I2 and I9."""
    of_jobs, of_processes = defaultdict(list), defaultdict(list)
    for event in events:
        if event.process_id is not None and event.event in OF_PROCESSES:
            of_processes[event.process_id].append(event)
        else:
            of_jobs[event.job_id].append(event)
    for number, job in jobs.items():
        chain = of_jobs[number]
        assert chain and chain[0].event == JobEvent.ACCEPTED, f"job {number} was never accepted"
        _check_chain(chain, {(str(s), str(e)): str(t) for (s, e), t in JOB_MOVES.items()}, job.state)
        ends = sum(event.to_state == JobState.ENDED for event in chain)
        assert ends == (job.state == JobState.ENDED), f"job {number} has {ends} terminal events"
    moves = {(str(s), str(e)): str(t) for (s, e), t in PROCESS_MOVES.items()}
    for number, process in processes.items():
        _check_chain(of_processes[number], moves, process.state)


def _check_chain(chain: Sequence[Event], moves: dict[tuple[str, str], str], state: str) -> None:
    """The first event creates, every other one is a legal move from where the one before it led."""
    assert chain[0].from_state is None, chain[0].event
    for before, event in pairwise(chain):
        told = (event.from_state, event.event, event.to_state)
        assert event.from_state == before.to_state, f"{told} does not follow {before.to_state}"
        assert moves.get((event.from_state or "", event.event)) == event.to_state, f"{told} is not legal"
    assert chain[-1].to_state == state, f"the last event led to {chain[-1].to_state}, but it is {state}"


def check_starts(runs: Sequence[Run]) -> None:
    """I3."""
    ranks: dict[tuple[int, int], list[Run]] = defaultdict(list)
    for run in runs:
        assert run.starts == 1, f"{run} was started {run.starts} times"
        ranks[run.job, run.rank].append(run)
    for attempts in ranks.values():
        for earlier, later in pairwise(sorted(attempts, key=lambda run: run.attempt)):
            assert earlier.last <= later.begun, f"{earlier} overlaps {later}"


def check_capacity(
    nodes: dict[int, Node], allocations: Sequence[Allocation], events: Sequence[Event]
) -> None:
    """I4: replay allocations in time."""
    placed_at = {event.process_id: event.at for event in events if event.event == ProcessEvent.ASSIGNED}
    changes = []
    for allocation in allocations:
        what = (allocation.node_id, allocation.kind, allocation.unit)
        changes.append((placed_at[allocation.process_id], 1, what, allocation.amount))
        if allocation.released_at is not None:
            changes.append((allocation.released_at, 0, what, -allocation.amount))
    used: dict[tuple[int, str, str | None], int] = defaultdict(int)
    for at, _, what, amount in sorted(changes, key=lambda change: change[:2]):  # releases first
        used[what] += amount
        node = nodes[what[0]]
        limit = {"cpu": node.cores * 1000, "mem": node.memory_mib}.get(what[1], 1)
        assert 0 <= used[what] <= limit, f"{what} of {node.name} is used {used[what]} times at {at}"


def check_exit(process: Process, run: Run) -> None:
    """I7: what the head recorded is what the process did."""
    if process.state != ProcessState.ENDED or process.killed_by:
        return  # it may have been killed after its last line
    assert run.exit_code is not None, f"process {process.id} of {run} did not end by itself"
    assert process.exit_code == run.exit_code, f"{run} ended with {process.exit_code}"


def check_log(log: bytes, run: Run, *, is_complete: bool) -> None:
    """I6: each line once and in order; all of them, unless the node was lost."""
    lines = log.decode().splitlines()
    assert lines == [f"line {i}" for i in range(len(lines))], f"the log of {run} is {lines[:50]}"
    if is_complete:
        # One that was killed may have printed a line more than it could note.
        assert run.lines <= len(lines) <= run.lines + 1, f"{run} has a log of {len(lines)} lines"


def _supervisors(pid: int) -> list[int]:
    """The supervisor of a process and its like, which do not have its environment."""
    found = []
    while stat := read_stat(pid):
        pid = stat.parent
        with suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() in SUPERVISORS:
                found.append(pid)
                continue
        break
    return found
