"""What would go along with a job, before anything does."""

import os
from typing import Any

from pit import output
from pit.connection import find_connection
from pit.head import Head
from pit.render import records
from pit.safe import safe
from pit.snapshot import Shot, size_of
from pit.submission import ask
from pit.tables import Column, Section
from pit_protocol.problem import Problem
from pit_protocol.submission import Demand
from pit_protocol.wire import to_json

COLUMNS = (
    Column("", styles={"A": "green", "?": "green", "M": "yellow", "T": "yellow", "D": "red"}),
    Column("BYTES", right=True),
    Column("FILE", flexible=True),
)
UNTRACKED = "?"


def show(shot: Shot, *, as_json: bool) -> None:
    """Print commit and remote, each file that is not as committed, and what stays here."""
    for note in shot.late_notes():
        output.tell(note)
    demand = _get_demand(shot)
    document = _document(shot, demand)
    if as_json:
        output.show_json(document)
        return
    remote = document["remote"]
    output.show(
        records(
            [
                ("Remote", f"{safe(document['remote_name'])} <{safe(remote)}>" if remote else "none"),
                ("Hash", safe(document["commit"] or "none, there is no commit yet")),
                ("Remote has", safe(document["base"] or "nothing of it")),
                *([("Head", safe(_head_words(demand)))] if demand else []),
                ("Tree", document["tree"]),
                ("Diff LoC", f"{document['diff_lines']:,}"),
            ]
        )
    )
    for title, name in (
        ("Not as committed", "changes"),
        ("Left out, for they look like secrets", "left_out"),
    ):
        rows = [(file["letter"], f"{file['size']:,}", safe(file["path"])) for file in document[name]]
        if rows:
            output.show("")
            output.show_table(COLUMNS, [Section(title, rows)])


def _get_demand(shot: Shot) -> Demand | None:
    """What the head says to it; None if it cannot be asked, which is no reason not to show the rest."""
    try:
        connection = find_connection()
        if connection.token is None:
            raise Problem("no_token", f"you are not logged in at {connection.url}")
        with Head(connection) as head:
            return ask(head, shot)
    except Problem as problem:
        output.tell(f"the head was not asked what it has: {problem.message}")
        return None


def _head_words(demand: Demand) -> str:
    if demand.complete:
        return "has all of it"
    if demand.why:
        return f"{demand.why}; what it lacks would be sent from here"
    return f"has or fetches {demand.base}" if demand.base else "has nothing of it"


def _document(shot: Shot, demand: Demand | None) -> dict[str, Any]:
    taken, base = shot.taken, shot.base
    return {
        "remote": base.remote.url if base else None,
        "remote_name": base.remote.name if base else None,
        "base": base.commit if base else None,
        "commit": shot.project.head[0] if shot.project.head else None,
        "branch": shot.project.branch,
        "tree": shot.tree,
        "diff_lines": shot.count_lines(),
        "changes": [_file(shot, letter, path) for letter, path in shot.differences()],
        "left_out": [_file(shot, UNTRACKED, path) for path in taken.left_out],
        "odd": [os.fsdecode(path) for path in taken.odd()],
        "large_files": len(taken.pointers),
        "head": to_json(demand) if demand else None,
    }


def _file(shot: Shot, letter: str, path: bytes) -> dict[str, Any]:
    return {"letter": letter, "path": os.fsdecode(path), "size": size_of(shot.taken, path)}
