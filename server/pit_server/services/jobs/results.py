"""Results: what a process leaves in `$RESULT_FILE`, as names and values.

The file belongs to the job, which may put anything there: it is opened by descriptor, read up to a limit, and
what cannot be understood is one sentence in the log, never a failure.
"""

import json
import math
import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import update
from sqlalchemy.orm import Session

from pit_protocol.arrays.numbers import array_of, job_name
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent
from pit_protocol.transport.dirfd import NO_FOLLOW, DirectoryTree
from pit_server.db.database import AnyRow, Database, note_event, notify_after_commit
from pit_server.db.models import Job
from pit_server.services.jobs import lifecycle
from pit_server.services.jobs.lifecycle import LockedJob
from pit_server.services.validation import storable
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.wakeups import job_topic

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-/]{0,99}")
MOST_NAMES = 100
MOST_TEXT = 1_000  # characters of a value
KIB = 1024
FILE = "result"

Results = dict[str, Any]  # numbers, texts, truth values and null


class BadResult(Exception):
    """The file cannot be understood; the text says why, for its user."""


def read(data: DataRoot, number: int, attempt: int, most_kib: int) -> Results:
    """The results of an attempt; empty if there are none, or only a text for people. Raises BadResult."""
    content = _read_file(data, number, attempt, most_kib * KIB + 1)
    if len(content) > most_kib * KIB:
        raise BadResult(f"it has more than {most_kib} KiB (`max_result_kib` of the head)")
    text = storable(content.decode(errors="replace")).strip()
    found = _parse_json(text) if text.startswith("{") else _parse_lines(text)
    if len(found) > MOST_NAMES:
        raise BadResult(f"it has {len(found)} names, and {MOST_NAMES} are allowed")
    return {_name(name): _value(name, value) for name, value in found.items()}


def _read_file(data: DataRoot, number: int, attempt: int, most: int) -> bytes:
    parts = data.attempt(number, attempt).relative_to(data.root).parts
    try:
        with DirectoryTree.at(data.root) as tree:
            flags = os.O_RDONLY | os.O_NONBLOCK | NO_FOLLOW
            descriptor = os.open(FILE, flags, dir_fd=tree.directory(parts))
    except (OSError, Problem):
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return os.read(descriptor, most)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _parse_json(text: str) -> Results:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadResult(f"it is not valid JSON: {str(error)[:100]}") from None
    return dict(found)


def _parse_lines(text: str) -> Results:
    """`loss=0.25` in each line; a text without any such line is for people."""
    pairs = [(line, *line.partition("=")) for line in map(str.strip, text.splitlines()) if line]
    good = {name.strip(): value.strip() for _, name, equals, value in pairs if equals}
    good = {name: value for name, value in good.items() if NAME.fullmatch(name)}
    if not good:
        return {}
    for line, name, equals, _ in pairs:
        if not equals or not NAME.fullmatch(name.strip()):
            raise BadResult(f"the line {line[:60]!r} is not NAME=VALUE")
    return {name: _number(value) for name, value in good.items()}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise BadResult(f"{name[:60]!r} is not a valid name")
    return name


def _value(name: str, value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # which JSON cannot store
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return str(value)[:MOST_TEXT]
    if isinstance(value, str):
        return value[:MOST_TEXT]
    if value is None or isinstance(value, bool | int | float):
        return value
    raise BadResult(f"the value of {name[:60]} is neither a number nor a text")


class Left(NamedTuple):
    """What an attempt has left."""

    number: int
    attempt: int
    results: Results
    trouble: str  # why its file cannot be understood


def read_all(data: DataRoot, ended: Iterable[AnyRow], settings: Settings) -> list[Left]:
    """What the attempts of these processes have left, which have just ended; no session may be open."""
    found = []
    for number, attempt in sorted({(row.job_id, row.attempt) for row in ended}):
        try:
            results, trouble = read(data, number, attempt, settings.max_result_kib), ""
        except BadResult as error:
            results, trouble = {}, describe(number, error)
        if results or trouble:
            found.append(Left(number, attempt, results, trouble))
    return found


def store(database: Database, found: Sequence[Left], *, now: float) -> None:
    """Keep the results; what cannot be understood is a line in the log."""
    if not found:
        return
    with database.write() as session:
        for left in found:
            job = lifecycle.lock(session, left.number)
            if job.attempt != left.attempt:
                continue
            session.execute(update(Job).where(Job.id == left.number).values(results=left.results or None))
            if left.trouble:
                _note(session, job, left.trouble, now)


def _note(session: Session, job: LockedJob, trouble: str, now: float) -> None:
    note_event(
        session,
        job_id=job.number,
        attempt=job.attempt,
        event=JobEvent.BAD_RESULT,
        from_state=job.state,
        to_state=job.state,
        actor=lifecycle.HEAD,
        reason=trouble,
        at=now,
    )
    notify_after_commit(session, job_topic(job.number), job_topic(array_of(job.number)))


def describe(number: int, error: BadResult) -> str:
    """The sentence for the log."""
    return f"the result of job {job_name(number)} is not a table: {error}"
