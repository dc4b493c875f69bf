"""From a shot of a project to a job on the head."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from pit import output
from pit.head import Head, Unreachable
from pit.patience import persist
from pit.progress import announced
from pit.project import lost
from pit.sending import send
from pit.snapshot import Shot
from pit_protocol.problem import Problem
from pit_protocol.submission import MAX_OBJECTS, Demand, Lacking, Snapshot, Submission


@dataclass(frozen=True)
class Wish:
    """What a user asks for, apart from the project's files."""

    title: str
    request: str
    command: str | None = None
    private: bool = False
    continues: int | None = None
    image: str | None = None
    variables: dict[str, str] = field(default_factory=dict, repr=False)
    inherits: int | None = None  # job whose variables it has too


def submit(head: Head, wish: Wish, snapshot: Snapshot | None, *, reruns: int | None = None) -> dict[str, Any]:
    """Make a job of a snapshot, or of the one that another job had; returns its record."""
    submission = Submission(
        key=uuid.uuid4().hex,
        title=wish.title,
        request=wish.request,
        snapshot=snapshot,
        reruns=reruns,
        command=wish.command,
        private=wish.private,
        continues=wish.continues,
        image=wish.image,
        variables=wish.variables,
        inherits=wish.inherits,
    )
    try:
        # Always with the same key: if only the answer was lost, the head knows the job already.
        return persist(lambda: head.submit(submission))
    except Unreachable as problem:
        raise Problem(
            problem.code,
            f"{problem.message}; the job may have been accepted or not",
            "`pit show jobs` tells when the head is back",
        ) from problem


def ask(head: Head, shot: Shot) -> Demand:
    """What the head says to the shot; with a remote that it does not take, as if there was none."""
    try:
        return persist(lambda: head.offer(shot.offer()))
    except Problem as problem:
        if problem.code != "bad_remote" or shot.base is None:
            raise
        shot.base = None
        return replace(persist(lambda: head.offer(shot.offer())), why=problem.message)


def bring(head: Head, shot: Shot) -> Snapshot:
    """See that the head has, or can fetch, all of the shot; what it lacks is sent."""
    with ThreadPoolExecutor(1) as pool:
        looked = pool.submit(shot.late_notes)  # while the head thinks
        snapshot = _bring(head, shot)
    for note in looked.result():
        output.tell(note)
    return snapshot


def _bring(head: Head, shot: Shot) -> Snapshot:
    demand = ask(head, shot)
    if demand.why:
        output.tell(f"{demand.why}; what it lacks is sent from here")
    remote = shot.base.remote.url if shot.base and not demand.why else None
    if shot.large and not demand.complete:
        asked = Lacking(large=shot.large, remote=remote)
        lacking = persist(lambda: head.lacking(asked)).large
        if lacking:
            shot.embed(frozenset(file.oid for file in lacking))
            demand = replace(ask(head, shot), why=demand.why)
    objects = shot.objects(demand)
    lacked = _lacked(head, list(objects), remote)
    if lacked & shot.missing:
        shot.drop_history()
        output.tell(shot.notes[-1])
        objects = shot.objects(demand)
        lacked &= objects.keys()
    if lacked & shot.missing:
        raise lost(min(lacked & shot.missing))
    if not lacked:
        return shot.snapshot(demand, None)
    with announced("packing what the head lacks"):
        pack = shot.pack([(name, path) for name, path in objects.items() if name in lacked])
    send(head, pack)
    return shot.snapshot(demand, pack)


def _lacked(head: Head, names: list[str], remote: str | None) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(names), MAX_OBJECTS):
        asked = Lacking(tuple(names[start : start + MAX_OBJECTS]), remote=remote)
        found.update(persist(lambda asked=asked: head.lacking(asked)).objects)  # type: ignore[misc]
    return found
