"""What a node is told: all that should run there, and what of its reports is settled."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.beat import (
    HOST,
    Container,
    Order,
    Orders,
    ProcessSpec,
    Pull,
    Report,
    Runtime,
    Wish,
)
from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy, ProcessState
from pit_server.db.database import AnyRow
from pit_server.db.models import IS_LIVE, Allocation, Attempt, Job, Node, Process, User
from pit_server.services import accounts, groups, variables
from pit_server.services.node_views import CPU, MEMORY, PORT
from pit_server.settings import Settings
from pit_server.store.logs import LogStream
from pit_server.store.paths import DataRoot, relative_paths

LEASE_PART = 0.9  # so that processes have ended on their node before the head takes them for lost
_ROWS = (
    select(
        Process.id,
        Process.job_id,
        Process.attempt_id,
        Process.group_index,
        Process.process_index,
        Process.rank,
        Process.state,
        Process.stop_by,
        Attempt.number.label("attempt"),
        Attempt.master_port,
        Attempt.network,
        Process.host,
        Job.command,
        Job.image,
        Job.user_id,
        Job.submission_key,
        Job.variables,
        User.name.label("user"),
    )
    .join(Attempt, Attempt.id == Process.attempt_id)
    .join(Job, Job.id == Process.job_id)
    .join(User, User.id == Job.user_id)
)


def stream_of(data: DataRoot, job: int, attempt: int, group: int, index: int) -> LogStream:
    """The log of one process."""
    return LogStream(data.logs(job), f"{attempt}-{group}.{index}")


def for_node(
    session: Session, node_id: int, reports: Iterable[Report], data: DataRoot, settings: Settings
) -> Orders:
    """The node's orders at this moment."""
    node = session.execute(select(Node.revision, Node.runtime).where(Node.id == node_id)).one()
    live = _live(session, node_id)
    fresh = {row.attempt_id for row in live if row.state == ProcessState.ASSIGNED}
    peers, shares = _peers(session, fresh), _shares(session, fresh)
    memberships = groups.names_by_user(session) if fresh else {}
    orders = []
    for row in live:
        spec = None
        if row.state == ProcessState.ASSIGNED:
            places = _places(row, memberships.get(row.user_id, []))
            spec = _with_variables(
                _spec(row, places, peers[row.attempt_id], shares[row.id], settings), row, settings
            )
            if node.runtime == Runtime.DOCKER:
                spec = _in_container(session, spec, row, settings)
        stopping = row.state == ProcessState.STOPPING
        orders.append(
            Order(
                process=row.id,
                attempt=row.attempt,
                wish=Wish.STOP if stopping else Wish.RUN,
                log_size=_log_size(data, row),
                killed_by=KilledBy(row.stop_by) if stopping and row.stop_by else None,
                spec=spec,
            )
        )
    known = {row.id for row in live}
    strangers = [report for report in reports if report.process not in known]
    lost = _lost(session, [report.process for report in strangers])
    orders += [_dismissal(report, lost.get(report.process), data) for report in strangers]
    return Orders(node.revision, tuple(orders))


def _dismissal(report: Report, lost: AnyRow | None, data: DataRoot) -> Order:
    """What to do with a process that should not, or no longer, be there; of a lost one the log is wanted."""
    size = _log_size(data, lost) if lost and lost.attempt == report.attempt else report.log_size
    settled = report.state is ProcessState.ENDED and size >= report.log_size
    return Order(report.process, report.attempt, Wish.FORGET if settled else Wish.STOP, size)


def _log_size(data: DataRoot, row: AnyRow) -> int:
    return stream_of(data, row.job_id, row.attempt, row.group_index, row.process_index).size()


def _live(session: Session, node_id: int) -> list[AnyRow]:
    return list(session.execute(_ROWS.where(Process.node_id == node_id, IS_LIVE).order_by(Process.id)))


def _lost(session: Session, processes: Sequence[int]) -> dict[int, AnyRow]:
    if not processes:
        return {}
    query = _ROWS.where(Process.id.in_(processes), Process.killed_by == KilledBy.NODE)
    return {row.id: row for row in session.execute(query)}


def _peers(session: Session, attempts: set[int]) -> dict[int, list[AnyRow]]:
    peers: dict[int, list[AnyRow]] = defaultdict(list)
    if not attempts:
        return peers
    for row in session.execute(
        select(Process.attempt_id, Process.group_index, Process.process_index, Process.rank, Process.host)
        .where(Process.attempt_id.in_(attempts))
        .order_by(Process.rank)
    ):
        peers[row.attempt_id].append(row)
    return peers


def _shares(session: Session, attempts: set[int]) -> dict[int, list[AnyRow]]:
    shares: dict[int, list[AnyRow]] = defaultdict(list)
    if not attempts:
        return shares
    for row in session.execute(
        select(Allocation.process_id, Allocation.kind, Allocation.unit, Allocation.amount)
        .join(Process, Process.id == Allocation.process_id)
        .where(Process.attempt_id.in_(attempts))
        .order_by(Allocation.id)
    ):
        shares[row.process_id].append(row)
    return shares


def _places(row: AnyRow, group_names: list[str]) -> dict[str, str]:
    """The directories of a process, with the rights that its user has now."""
    own = relative_paths(row.job_id, row.attempt, row.user)
    return {**{groups.variable_of(name): f"groups/{name}" for name in group_names}, **own}


def _spec(
    row: AnyRow, places: dict[str, str], peers: list[AnyRow], shares: list[AnyRow], settings: Settings
) -> ProcessSpec:
    units = tuple(share.unit for share in shares if share.unit is not None and share.kind != PORT)
    amounts = {share.kind: share.amount for share in shares if share.unit is None}
    return ProcessSpec(
        job=row.job_id,
        rank=row.rank,
        group=row.group_index,
        index=row.process_index,
        command=row.command,
        env=_environment(row, peers, units),
        paths=places,
        hostfile="".join(f"{host} slots={count}\n" for host, count in _hosts(peers).items()),
        grace_s=settings.grace_s,
        lease_s=float(int(LEASE_PART * settings.lost_after_s)) or None,
        cpus=amounts[CPU] / 1000 if CPU in amounts else None,
        memory_mib=amounts.get(MEMORY),
        disk_mib=settings.max_disk_gib * 1024 or None,
        units=units,
    )


def _with_variables(spec: ProcessSpec, row: AnyRow, settings: Settings) -> ProcessSpec:
    """The same with the user's own variables."""
    try:
        found = variables.open_all(settings.home, row.user_id, row.submission_key, row.variables)
    except Problem:
        # Told by the job itself: what ails one must not keep the node from all its orders.
        return replace(spec, command=variables.NOT_OPENED)
    return replace(spec, variables=found)


def _in_container(session: Session, spec: ProcessSpec, row: AnyRow, settings: Settings) -> ProcessSpec:
    """The same for a node that runs processes in containers, which see no GPUs but their own."""
    container = Container(
        image=row.image or settings.image,
        pull=Pull(settings.pull),
        network=row.network,
        name=row.host if row.network != HOST else "",
        shm_mib=settings.shm_mib,
        pids=settings.max_pids,
    )
    env = {name: value for name, value in spec.env.items() if name != "CUDA_VISIBLE_DEVICES"}
    return replace(spec, env=env, container=container, account=accounts.find_account(session, row.user_id))


def _environment(row: AnyRow, peers: list[AnyRow], units: tuple[str, ...]) -> dict[str, str]:
    groups: dict[int, int] = defaultdict(int)
    env = {}
    for peer in peers:
        groups[peer.group_index] += 1
        env[f"HOST_GROUP{peer.group_index}_PROCESS{peer.process_index}"] = peer.host
    env |= {f"NUM_PROCESSES_GROUP{group}": str(count) for group, count in groups.items()}
    return env | {
        "NUM_GROUPS": str(len(groups)),
        "GROUP_INDEX": str(row.group_index),
        "PROCESS_INDEX": str(row.process_index),
        "JOB_NUMBER": str(row.job_id),
        "ATTEMPT": str(row.attempt),
        "MASTER_ADDR": peers[0].host,
        "MASTER_PORT": str(row.master_port),
        "WORLD_SIZE": str(len(peers)),
        "RANK": str(row.rank),
        # Of its own GPUs it is the only user, and they are numbered from 0.
        "LOCAL_RANK": "0",
        "CUDA_VISIBLE_DEVICES": ",".join(units),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def _hosts(peers: list[AnyRow]) -> dict[str, int]:
    hosts: dict[str, int] = defaultdict(int)
    for peer in peers:
        hosts[peer.host] += 1
    return hosts
