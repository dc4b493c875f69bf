"""`pit run --dry-run`: what a job would be sent with."""

import os

from pit.connect.connection import find_connection
from pit.head.client import Head
from pit.jobs.submission import ask
from pit.snapshot.capture import WorktreeSnapshot, size_of
from pit.ui import output
from pit.ui.documents import ChangedFile, DryRun
from pit.ui.render import records
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit_protocol.answers.snapshots import OfferAnswer
from pit_protocol.problem import Problem

COLUMNS = (
    Column("", styles={"A": "green", "?": "green", "M": "yellow", "T": "yellow", "D": "red"}),
    Column("BYTES", right=True),
    Column("FILE", flexible=True, importance=9),
)
UNTRACKED = "?"


def show(worktree: WorktreeSnapshot, *, as_json: bool) -> None:
    """Print commit and remote, each file that is not as committed, and the files that are left out."""
    for note in worktree.slow_notes():
        output.note(note)
    answer = _ask_head(worktree)
    document = _document(worktree, answer)
    if as_json:
        output.show_json(document)
        return
    output.show(
        records(
            [
                ("Remote", _remote(document)),
                ("Hash", sanitize(document.commit or "none, there is no commit yet")),
                ("Remote has", sanitize(document.base or "nothing of it")),
                *([("Head", sanitize(_head_words(answer)))] if answer else []),
                ("Tree", document.tree),
                ("Diff LoC", f"{document.diff_lines:,}"),
            ]
        )
    )
    for title, files in (
        ("Not as committed", document.changes),
        ("Left out, because they look like secrets", document.left_out),
    ):
        rows = [(file.letter, f"{file.size:,}", sanitize(file.path)) for file in files]
        if rows:
            output.show("")
            output.show_table(COLUMNS, [Section(title, rows)])


def _ask_head(worktree: WorktreeSnapshot) -> OfferAnswer | None:
    """What the head needs; None if it cannot be asked, and then the rest is still shown."""
    try:
        connection = find_connection()
        if connection.token is None:
            raise Problem("no_token", f"you are not logged in at {connection.url}")
        with Head(connection) as head:
            return ask(head, worktree)
    except Problem as problem:
        output.note(f"the head was not asked what it has: {problem.message}")
        return None


def _remote(document: DryRun) -> str:
    if not document.remote:
        return "none"
    return f"{sanitize(document.remote_name or '')} <{sanitize(document.remote)}>"


def _head_words(answer: OfferAnswer) -> str:
    if answer.complete:
        return "has all of it"
    if answer.why:
        return f"{answer.why}; the missing objects would be sent"
    return f"has or fetches {answer.base}" if answer.base else "has nothing of it"


def _document(worktree: WorktreeSnapshot, answer: OfferAnswer | None) -> DryRun:
    captured, base = worktree.captured, worktree.base
    return DryRun(
        remote=base.remote.url if base else None,
        remote_name=base.remote.name if base else None,
        base=base.commit if base else None,
        commit=worktree.repo.head[0] if worktree.repo.head else None,
        branch=worktree.repo.branch,
        tree=worktree.tree,
        diff_lines=worktree.count_lines(),
        changes=[_file(worktree, letter, path) for letter, path in worktree.differences()],
        left_out=[_file(worktree, UNTRACKED, path) for path in captured.left_out],
        odd=[os.fsdecode(path) for path in captured.special_files()],
        large_files=len(captured.pointers),
        head=answer,
    )


def _file(worktree: WorktreeSnapshot, letter: str, path: bytes) -> ChangedFile:
    return ChangedFile(letter, os.fsdecode(path), size_of(worktree.captured, path))
