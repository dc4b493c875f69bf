"""Checking, hashing and comparing passwords; slow on purpose, but never on all cores at once."""

import os
import threading

import bcrypt

from pit_protocol.problem import Problem

MAX_BYTES = 72  # bcrypt ignores the rest
MIN_CHARACTERS = 8


class Passwords:
    def __init__(self, cost: int) -> None:
        self._cost = cost
        self._slots = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) - 1))
        # For unknown users: comparing takes as long as with a real hash.
        self._dummy_hash = f"$2b${cost:02}$" + "abcdefghijklmnopqrstuu" + "." * 31

    def make(self, password: str) -> str:
        """Hash a password; raises a Problem for an invalid one."""
        raw = _check(password)
        with self._slots:
            return bcrypt.hashpw(raw, bcrypt.gensalt(self._cost)).decode()

    def is_right(self, password: str, hashed: str | None) -> bool:
        """Compare a password with a hash; without a hash it takes as long and is False."""
        try:
            raw = _check(password)
        except Problem:
            raw, hashed = b"cannot be one", None
        with self._slots:
            same = bcrypt.checkpw(raw, (hashed or self._dummy_hash).encode())
        return same and hashed is not None


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
