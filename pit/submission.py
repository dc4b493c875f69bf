"""From a shot of a project to a job on the head."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pit.head import Head, Unreachable
from pit.snapshot import Parcel, Shot, digest
from pit_protocol.problem import Problem
from pit_protocol.submission import Submission

T = TypeVar("T")

PAUSES_S = (0.5, 1.0, 2.0, 4.0)  # before the second, third … time of sending


@dataclass(frozen=True)
class Wish:
    """What a user asks for, apart from the project's files."""

    title: str
    request: str
    command: str | None = None
    private: bool = False
    continues: int | None = None
    image: str | None = None
    bundle: bool = False  # send the commit's objects, even if the head could fetch them


def submit(head: Head, shot: Shot, wish: Wish) -> dict[str, Any]:
    """Make a job of the shot; returns its record."""
    parcel = None if wish.bundle else shot.from_remote()
    if parcel is not None:
        try:
            return _send(head, parcel, wish)
        except Problem as problem:
            if problem.code != "remote_not_fetchable":
                raise
    return _send(head, shot.with_pack(), wish)


def _send(head: Head, parcel: Parcel, wish: Wish) -> dict[str, Any]:
    for body in parcel.bodies:
        _again(lambda body=body: _upload(head, body))  # type: ignore[misc]
    submission = Submission(
        key=uuid.uuid4().hex,
        title=wish.title,
        request=wish.request,
        snapshot=parcel.snapshot,
        command=wish.command,
        private=wish.private,
        continues=wish.continues,
        image=wish.image,
    )
    try:
        # Always with the same key: if only the answer was lost, the head knows the job already.
        return _again(lambda: head.submit(submission))
    except Unreachable as problem:
        raise Problem(
            problem.code,
            f"{problem.message}; the job may have been accepted or not",
            "`pit show jobs` tells when the head is back",
        ) from problem


def _upload(head: Head, body: Path) -> None:
    with body.open("rb") as file:
        head.upload(digest(body), file)


def _again(call: Callable[[], T]) -> T:
    for pause_s in PAUSES_S:
        try:
            return call()
        except Unreachable:
            time.sleep(pause_s)
    return call()
