"""Passwords: judged, hashed and compared; slow on purpose, and never all cores at once."""

import os
import threading

import bcrypt

from pit_protocol.problem import Problem

MAX_BYTES = 72  # what bcrypt looks at; a longer one would be equal to its first 72
MIN_CHARACTERS = 8


class Passwords:
    def __init__(self, cost: int) -> None:
        self._cost = cost
        self._turn = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) - 1))
        # For names that nobody has: comparing takes as long as with a real one.
        self._nobodys = f"$2b${cost:02}$" + "abcdefghijklmnopqrstuu" + "." * 31

    def make(self, password: str) -> str:
        """The hash to keep; raises a Problem for one that cannot be a password."""
        raw = _check(password)
        with self._turn:
            return bcrypt.hashpw(raw, bcrypt.gensalt(self._cost)).decode()

    def is_right(self, password: str, hashed: str | None) -> bool:
        """Compare; without a hash it takes as long, and is never right."""
        try:
            raw = _check(password)
        except Problem:
            raw, hashed = b"cannot be one", None
        with self._turn:
            same = bcrypt.checkpw(raw, (hashed or self._nobodys).encode())
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
