"""Send a snapshot of the work tree to the head, and submit a job."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from msgspec.structs import replace

from pit.head.client import Head
from pit.head.http_session import Unreachable
from pit.head.retry import with_retry
from pit.jobs.pack_upload import send
from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.git_command import missing_object
from pit.ui import output
from pit.ui.progress import announce_if_slow, hint_on_interrupt
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.answers.snapshots import OfferAnswer
from pit_protocol.messages.submission import (
    MAX_OBJECTS,
    SNAPSHOT_INCOMPLETE,
    MissingObjects,
    Snapshot,
    Submission,
)
from pit_protocol.problem import Problem

TO_NEGOTIATE = (SNAPSHOT_INCOMPLETE, "bad_remote")  # refusals after which the snapshot is offered


def submit(head: Head, submission: Submission) -> JobRecord:
    """Submit a job; returns its record."""
    try:
        # A retry has the same key: if only the answer was lost, the head finds the job.
        with hint_on_interrupt("the job may or may not have been accepted; check with `pit show jobs`"):
            return with_retry(lambda: head.submit(submission))
    except Unreachable as problem:
        raise Problem(
            problem.code,
            f"{problem.message}; the job may or may not have been accepted",
            "check with `pit show jobs` when the head is back",
        ) from problem


def submit_worktree(
    head: Head, worktree: WorktreeSnapshot, make: Callable[[Snapshot], Submission]
) -> JobRecord:
    """Submit a work tree: with one request if the head has all of it, else after sending what is missing."""
    if not worktree.lfs_files:  # only an offer tells whether the head can get these
        guess = make(worktree.snapshot(OfferAnswer(complete=True, base=None), None))
        try:
            with _slow_notes(worktree):
                return submit(head, replace(guess, only_if_here=True))
        except Problem as problem:
            if problem.code not in TO_NEGOTIATE:
                raise
    return submit(head, make(bring(head, worktree)))


def ask(head: Head, worktree: WorktreeSnapshot) -> OfferAnswer:
    """Offer the snapshot; if the head rejects the remote, offer it again without one."""
    try:
        return with_retry(lambda: head.offer(worktree.offer()))
    except Problem as problem:
        if problem.code != "bad_remote" or worktree.base is None:
            raise
        worktree.base = None
        return replace(with_retry(lambda: head.offer(worktree.offer())), why=problem.message)


def bring(head: Head, worktree: WorktreeSnapshot) -> Snapshot:
    """Make sure that the head has or can fetch the whole snapshot; sends the missing objects."""
    left = "no job was submitted; the head keeps what was sent for a day, and the next `pit run` goes on"
    with hint_on_interrupt(left), _slow_notes(worktree):
        return _bring(head, worktree)


@contextmanager
def _slow_notes(worktree: WorktreeSnapshot) -> Iterator[None]:
    """Find notes for the user while the head works, and print them after it."""
    with ThreadPoolExecutor(1) as pool:
        notes = pool.submit(worktree.slow_notes)
        yield
    for note in notes.result():
        output.note(note)


def _bring(head: Head, worktree: WorktreeSnapshot) -> Snapshot:
    answer = ask(head, worktree)
    if answer.why:
        output.note(f"{answer.why}; sending the missing objects instead")
    remote = worktree.base.remote.url if worktree.base and not answer.why else None
    if worktree.lfs_files and not answer.complete:
        asked = MissingObjects(large=worktree.lfs_files, remote=remote)
        missing_lfs = with_retry(lambda: head.missing(asked)).large
        if missing_lfs:
            worktree.embed(frozenset(file.oid for file in missing_lfs))
            answer = replace(ask(head, worktree), why=answer.why)
    objects = worktree.objects(answer)
    missing = _list_missing(head, list(objects), remote)
    if missing & worktree.missing:
        worktree.drop_history()
        output.note(worktree.notes[-1])
        objects = worktree.objects(answer)
        missing &= objects.keys()
    if missing & worktree.missing:
        raise missing_object(min(missing & worktree.missing))
    if not missing:
        return worktree.snapshot(answer, None)
    with announce_if_slow("packing missing objects"):
        pack = worktree.pack([(name, path) for name, path in objects.items() if name in missing])
    send(head, pack)
    return worktree.snapshot(answer, pack)


def _list_missing(head: Head, names: list[str], remote: str | None) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(names), MAX_OBJECTS):
        asked = MissingObjects(tuple(names[start : start + MAX_OBJECTS]), remote=remote)
        found.update(with_retry(lambda asked=asked: head.missing(asked)).objects)  # type: ignore[misc]
    return found
