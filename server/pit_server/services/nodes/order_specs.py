"""What workers need to start processes, built once for each process and kept until the worker has it."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.job_options import JobOptions
from pit_protocol.messages.beat import HOST, Account, Container, ProcessSpec, Pull, Runtime, Venv
from pit_protocol.problem import Problem
from pit_protocol.wire import from_json
from pit_server.db.database import AnyRow
from pit_server.db.models import Allocation, Process
from pit_server.scheduler.kinds import CPU, MEMORY, PORT
from pit_server.services.files import unix_ids
from pit_server.services.jobs import user_variables
from pit_server.services.jobs.arrays import directories
from pit_server.services.jobs.processes import environment
from pit_server.services.logs.output_limit import share_of_process
from pit_server.services.users import groups
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot, relative_paths
from pit_server.store.log_stream import process_log

LEASE_PART = 0.9  # of the head's lease, so that processes have ended before the head marks them lost

_Basis = tuple[Any, ...]  # what a spec depends on that may change while it is kept


class OrderSpecs:
    def __init__(self, data: DataRoot, settings: Settings) -> None:
        self._data, self._settings = data, settings
        self._known: dict[int, dict[int, tuple[_Basis, ProcessSpec]]] = {}  # by node and process

    def find_all(self, session: Session, node: AnyRow, assigned: Sequence[AnyRow]) -> dict[int, ProcessSpec]:
        """The specs of processes that are assigned to a node; what they need in the data root is there."""
        if not assigned:
            self._known.pop(node.id, None)
            return {}
        owners, memberships = _Owners(session, self._data), groups.names_by_user(session)
        separates = unix_ids.separates(node)
        bases: dict[int, _Basis] = {
            row.id: (
                node.runtime,
                separates,
                owners.account(row.user_id),
                row.user,
                *memberships[row.user_id],
            )
            for row in assigned
        }
        known = self._known.get(node.id, {})
        kept = {key: known[key] for key, basis in bases.items() if key in known and known[key][0] == basis}
        fresh = [row for row in assigned if row.id not in kept]
        peers, shares = _read_peers(session, {row.attempt_id for row in fresh})
        for row in fresh:
            # Before the order leaves the head, for a head that is restored from an older backup.
            process_log(self._data, row.job_id, row.attempt, row.group_index, row.process_index).touch()
            if row.array_index is not None:
                directories.make(self._data, row.job_id, row.attempt, owners.account(row.user_id))
            places = _directories(row, memberships[row.user_id])
            spec = self._build(row, places, peers[row.attempt_id], shares[row.id], node.runtime)
            if separates:
                spec = replace(spec, account=owners.hand_over(row))
            kept[row.id] = bases[row.id], spec
        self._known[node.id] = kept
        return {key: spec for key, (_, spec) in kept.items()}

    def _build(
        self, row: AnyRow, places: dict[str, str], peers: list[AnyRow], shares: list[AnyRow], runtime: str
    ) -> ProcessSpec:
        options = from_json(JobOptions, row.options)
        spec = _spec(row, options, places, peers, shares, self._settings)
        spec = _with_variables(spec, row, options, self._settings)
        return _in_container(spec, row, options, self._settings) if runtime == Runtime.DOCKER else spec


def _read_peers(
    session: Session, attempts: set[int]
) -> tuple[dict[int, list[AnyRow]], dict[int, list[AnyRow]]]:
    """The processes of attempts, and what each of them holds."""
    peers: dict[int, list[AnyRow]] = defaultdict(list)
    shares: dict[int, list[AnyRow]] = defaultdict(list)
    if not attempts:
        return peers, shares
    query = (
        select(Process.id, Process.attempt_id, Process.group_index, Process.process_index, Process.host)
        .add_columns(Allocation.kind, Allocation.unit, Allocation.amount)
        .outerjoin(Allocation, Allocation.process_id == Process.id)
        .where(Process.attempt_id.in_(attempts))
        .order_by(Process.rank, Process.id, Allocation.id)
    )
    for row in session.execute(query):
        if row.id not in shares:
            peers[row.attempt_id].append(row)
        shares[row.id].append(row)
    return peers, shares


def _directories(row: AnyRow, group_names: list[str]) -> dict[str, str]:
    """The directories that the process's user may use now."""
    own = relative_paths(row.job_id, row.attempt, row.user)
    return {**{groups.variable_of(name): f"groups/{name}" for name in group_names}, **own}


def _spec(
    row: AnyRow,
    options: JobOptions,
    places: dict[str, str],
    peers: list[AnyRow],
    shares: list[AnyRow],
    settings: Settings,
) -> ProcessSpec:
    units = tuple(share.unit for share in shares if share.unit is not None and share.kind != PORT)
    amounts = {share.kind: share.amount for share in shares if share.unit is None}
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


def _with_variables(spec: ProcessSpec, row: AnyRow, options: JobOptions, settings: Settings) -> ProcessSpec:
    """Add the user's own variables, plain and secret."""
    try:
        secrets = user_variables.open_all(settings.home, row.user_id, row.submission_key, row.variables)
    except Problem:
        # The job itself reports it, because one bad job must not block the node's other orders.
        return replace(spec, command=user_variables.UNREADABLE_COMMAND)
    return replace(spec, variables=options.env | environment.swept(row.array_index, options) | secrets)


def _in_container(spec: ProcessSpec, row: AnyRow, options: JobOptions, settings: Settings) -> ProcessSpec:
    """Adapt the spec for a node that runs containers, where a process sees only its own GPUs."""
    container = Container(
        image=options.image or settings.image,
        pull=Pull(settings.pull),
        network=row.network,
        name=row.host if row.network != HOST else "",
        shm_mib=settings.shm_mib,
        pids=settings.max_pids,
    )
    env = {name: value for name, value in spec.env.items() if name != "CUDA_VISIBLE_DEVICES"}
    return replace(spec, env=env, container=container)


class _Owners:
    """The accounts that processes run as; each user's is looked up once."""

    def __init__(self, session: Session, data: DataRoot) -> None:
        self._session, self._data = session, data
        self._accounts: dict[int, Account | None] = {}
        self._prepared: set[int] = set()  # users whose own directories and groups are theirs

    def account(self, user_id: int) -> Account | None:
        if user_id not in self._accounts:
            self._accounts[user_id] = unix_ids.find_account(self._session, user_id)
        return self._accounts[user_id]

    def hand_over(self, row: AnyRow) -> Account | None:
        """The account of a process; its directories may be from before the user had it."""
        account = self.account(row.user_id)
        if account:
            unix_ids.give_once(self._data.attempt(row.job_id, row.attempt), account)
        if account and row.user_id not in self._prepared:
            self._prepared.add(row.user_id)
            unix_ids.give_once(self._data.home(row.user), account)
            for name, gid in unix_ids.gids_of_user(self._session, row.user_id).items():
                unix_ids.open_group(self._data.group(name), gid)
        return account
