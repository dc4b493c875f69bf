"""Checking, hashing and comparing passwords; slow on purpose, but never on all cores at once."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import bcrypt

from pit_protocol.problem import Problem

MAX_BYTES = 72  # bcrypt ignores the rest
MIN_CHARACTERS = 8
MOST_WAITING = 20  # for a slot: five seconds of work


class Passwords:
    def __init__(self, cost: int) -> None:
        self._cost = cost
        slots = max(1, (os.cpu_count() or 2) - 1)
        self._slots = threading.BoundedSemaphore(slots)
        self._places = threading.BoundedSemaphore(slots + MOST_WAITING)
        # For unknown users: comparing takes as long as with a real hash.
        self._dummy_hash = f"$2b${cost:02}$" + "abcdefghijklmnopqrstuu" + "." * 31

    def make(self, password: str) -> str:
        """Hash a password; raises a Problem for an invalid one."""
        raw = _check(password)
        with self._slot():
            return bcrypt.hashpw(raw, bcrypt.gensalt(self._cost)).decode()

    def is_right(self, password: str, hashed: str | None) -> bool:
        """Compare a password with a hash; without a hash it takes as long and is False."""
        try:
            raw = _check(password)
        except Problem:
            raw, hashed = b"cannot be one", None
        with self._slot():
            same = bcrypt.checkpw(raw, (hashed or self._dummy_hash).encode())
        return same and hashed is not None

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """A turn to compute; raises a Problem if too many wait for one."""
        if not self._places.acquire(blocking=False):
            raise Problem("busy", "too many people log in at this moment", "try again in 5 s", status=503)
        try:
            with self._slots:
                yield
        finally:
            self._places.release()


def _check(password: str) -> bytes:
    try:
        raw = password.encode()
    except UnicodeEncodeError:
        raw = b"\0"
    if len(password) < MIN_CHARACTERS or len(raw) > MAX_BYTES or b"\0" in raw:
        raise Problem(
            "bad_password",
            "this cannot be a password",
            f"it has at least {MIN_CHARACTERS} characters, at most {MAX_BYTES} bytes, and no NUL",
            status=422,
        )
    return raw
