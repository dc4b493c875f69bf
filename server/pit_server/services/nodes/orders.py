"""The orders of a node: all that should run there, and which of its reports are settled."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace
from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from pit_protocol.job_options import JobOptions
from pit_protocol.messages.beat import (
    HOST,
    Account,
    Container,
    Order,
    OrderAction,
    Orders,
    ProcessSpec,
    Pull,
    Report,
    Runtime,
    Venv,
)
from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy, ProcessState
from pit_protocol.wire import from_json
from pit_server.db.database import AnyRow
from pit_server.db.models import IS_LIVE, Allocation, Attempt, Job, Node, Process, User
from pit_server.scheduler.kinds import CPU, MEMORY, PORT
from pit_server.services.files import unix_ids
from pit_server.services.jobs import time_limits, user_variables
from pit_server.services.jobs.arrays import directories
from pit_server.services.jobs.processes import environment
from pit_server.services.logs.output_limit import share_of_process
from pit_server.services.users import groups
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot, relative_paths
from pit_server.store.log_stream import LogStream, process_log

LEASE_PART = 0.9  # of the head's lease, so that processes have ended before the head marks them lost
_ARRAY = aliased(Job)  # of an element; secrets are sealed with its key
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
        Attempt.lost_after_s,
        Attempt.grace_s,
        Process.host,
        Job.options,
        Job.state.label("job_state"),
        Job.since,
        Job.user_id,
        Job.variables,
        Job.array_index,
        func.coalesce(_ARRAY.submission_key, Job.submission_key).label("submission_key"),
        User.name.label("user"),
    )
    .join(Attempt, Attempt.id == Process.attempt_id)
    .join(Job, Job.id == Process.job_id)
    .outerjoin(_ARRAY, _ARRAY.id == Job.array_job)
    .join(User, User.id == Job.user_id)
)


def for_node(
    session: Session,
    node_id: int,
    reports: Iterable[Report],
    data: DataRoot,
    settings: Settings,
    *,
    now: float,
) -> Orders:
    """Build the node's orders at this moment."""
    node = session.execute(select(Node).where(Node.id == node_id)).scalar_one()
    live = _live(session, node_id)
    fresh = {row.attempt_id for row in live if row.state == ProcessState.ASSIGNED}
    peers, shares = _peers(session, fresh), _shares(session, fresh)
    memberships = groups.names_by_user(session) if fresh else {}
    orders = []
    for row in live:
        spec = None
        if row.state == ProcessState.ASSIGNED:
            # Before the order leaves the head, for a head that is restored from an older backup.
            _log(data, row).touch()
            if row.array_index is not None:
                directories.make(data, row.job_id, row.attempt, unix_ids.find_account(session, row.user_id))
            places = _directories(row, memberships.get(row.user_id, []))
            spec = _with_variables(
                _spec(row, places, peers[row.attempt_id], shares[row.id], settings), row, settings
            )
            if node.runtime == Runtime.DOCKER:
                spec = _in_container(spec, row, settings)
            if unix_ids.separates(node):
                spec = replace(spec, account=_hand_over(session, row, data))
        stopping = row.state == ProcessState.STOPPING
        limit, ran_s = time_limits.in_order(row, now=now)
        orders.append(
            Order(
                process=row.id,
                attempt=row.attempt,
                action=OrderAction.STOP if stopping else OrderAction.RUN,
                log_size=_log_size(data, row),
                killed_by=KilledBy(row.stop_by) if stopping and row.stop_by else None,
                spec=spec,
                time=limit,
                ran_s=ran_s,
            )
        )
    known = {row.id for row in live}
    unknown = [report for report in reports if report.process not in known]
    lost = _lost(session, [report.process for report in unknown])
    orders += [_dismissal(report, lost.get(report.process), data) for report in unknown]
    return Orders(node.revision, tuple(orders))


def _dismissal(report: Report, lost: AnyRow | None, data: DataRoot) -> Order:
    """The order for a process that should not run there; the log of a lost one is still fetched."""
    size = _log_size(data, lost) if lost and lost.attempt == report.attempt else report.log_size
    settled = report.state is ProcessState.ENDED and size >= report.log_size
    return Order(report.process, report.attempt, OrderAction.FORGET if settled else OrderAction.STOP, size)


def _log(data: DataRoot, row: AnyRow) -> LogStream:
    return process_log(data, row.job_id, row.attempt, row.group_index, row.process_index)


def _log_size(data: DataRoot, row: AnyRow) -> int:
    return _log(data, row).size()


def _live(session: Session, node_id: int) -> list[AnyRow]:
    query = _ROWS.where(Process.node_id == node_id, IS_LIVE).order_by(Process.attempt_id, Process.rank)
    return list(session.execute(query))


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


def _directories(row: AnyRow, group_names: list[str]) -> dict[str, str]:
    """The directories that the process's user may use now."""
    own = relative_paths(row.job_id, row.attempt, row.user)
    return {**{groups.variable_of(name): f"groups/{name}" for name in group_names}, **own}


def _spec(
    row: AnyRow, places: dict[str, str], peers: list[AnyRow], shares: list[AnyRow], settings: Settings
) -> ProcessSpec:
    units = tuple(share.unit for share in shares if share.unit is not None and share.kind != PORT)
    amounts = {share.kind: share.amount for share in shares if share.unit is None}
    options = from_json(JobOptions, row.options)
    return ProcessSpec(
        job=row.job_id,
        rank=row.rank,
        group=row.group_index,
        index=row.process_index,
        command=options.command,
        env=environment.variables(row, peers, units) | environment.of_element(row.array_index, options),
        paths=places,
        hostfile=environment.hostfile(peers),
        grace_s=row.grace_s,
        lease_s=None if row.lost_after_s is None else float(int(LEASE_PART * row.lost_after_s)),
        cpus=amounts[CPU] / 1000 if CPU in amounts else None,
        memory_mib=amounts.get(MEMORY),
        disk_mib=settings.max_disk_gib * 1024 or None,
        output_bytes=share_of_process(settings.max_output_mib, len(peers)),
        units=units,
        venv=Venv(options.venv, options.python or "", row.user) if options.venv else None,
    )


def _with_variables(spec: ProcessSpec, row: AnyRow, settings: Settings) -> ProcessSpec:
    """Add the user's own variables, plain and secret."""
    try:
        secrets = user_variables.open_all(settings.home, row.user_id, row.submission_key, row.variables)
    except Problem:
        # The job itself reports it, because one bad job must not block the node's other orders.
        return replace(spec, command=user_variables.UNREADABLE_COMMAND)
    options = from_json(JobOptions, row.options)
    return replace(spec, variables=options.env | environment.swept(row.array_index, options) | secrets)


def _hand_over(session: Session, row: AnyRow, data: DataRoot) -> Account | None:
    """Find the account that a process runs as; its directories may be from before the user had it."""
    account = unix_ids.find_account(session, row.user_id)
    if account:
        for directory in (data.attempt(row.job_id, row.attempt), data.home(row.user)):
            unix_ids.give_once(directory, account)
        for name, gid in unix_ids.gids_of_user(session, row.user_id).items():
            unix_ids.open_group(data.group(name), gid)
    return account


def _in_container(spec: ProcessSpec, row: AnyRow, settings: Settings) -> ProcessSpec:
    """Adapt the spec for a node that runs containers, where a process sees only its own GPUs."""
    container = Container(
        image=from_json(JobOptions, row.options).image or settings.image,
        pull=Pull(settings.pull),
        network=row.network,
        name=row.host if row.network != HOST else "",
        shm_mib=settings.shm_mib,
        pids=settings.max_pids,
    )
    env = {name: value for name, value in spec.env.items() if name != "CUDA_VISIBLE_DEVICES"}
    return replace(spec, env=env, container=container)
