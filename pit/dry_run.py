"""What would go along with a job, before anything does."""

import os
from typing import Any

from pit import output
from pit.render import records
from pit.safe import safe
from pit.snapshot import Shot, size_of
from pit.tables import Column, Section

COLUMNS = (
    Column("", styles={"A": "green", "?": "green", "M": "yellow", "T": "yellow", "D": "red"}),
    Column("BYTES", right=True),
    Column("FILE", flexible=True),
)
UNTRACKED = "?"


def show(shot: Shot, *, as_json: bool) -> None:
    """Print commit and remote, each file that is not as committed, and what stays here."""
    document = _document(shot)
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


def _document(shot: Shot) -> dict[str, Any]:
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
        "large_files": len(taken.pointers),
    }


def _file(shot: Shot, letter: str, path: bytes) -> dict[str, Any]:
    return {"letter": letter, "path": os.fsdecode(path), "size": size_of(shot.taken, path)}
