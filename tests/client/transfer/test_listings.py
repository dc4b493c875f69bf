"""Listings as they come: read line by line, wherever the connection cuts them."""

import json

import pytest

from pit.head.files_api import _entries
from pit.head.http_session import Unreachable
from pit.ui.tables import Column, Section, render_plain
from pit_protocol.wire import to_json

ENTRIES = [
    {"name": "a]}", "kind": "file", "size": 1, "mtime": 1.5, "mode": "0644"},
    {"name": "line\nend,", "kind": "directory", "mtime": 2.5, "mode": "0755"},
    {"name": "l", "kind": "link", "mtime": 3.5, "mode": "0777", "target": {"name": "[]}"}},
]


def document(entries: list[dict[str, object]]) -> bytes:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    return f'{{"domain": "user:anna", "name": "", "entries": [{chr(10) if lines else ""}{lines}]}}\n'.encode()


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_a_listing_is_read_however_it_is_cut(size: int) -> None:
    whole = document(ENTRIES)
    pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert [to_json(entry) for entry in _entries(pieces)] == ENTRIES


def test_an_empty_listing_has_no_entries() -> None:
    assert list(_entries([document([])])) == []


def test_entries_are_there_before_the_listing_ends() -> None:
    opening, first, _ = document(ENTRIES).split(b"\n", 2)
    coming = _entries(iter([opening + b"\n" + first + b"\n"]))
    assert to_json(next(coming)) == ENTRIES[0]
    with pytest.raises(Unreachable, match="the head's list breaks off"):
        next(coming)


@pytest.mark.parametrize("kept", [0, 10, -1, -3, -40])
def test_a_truncated_listing_is_reported(kept: int) -> None:
    with pytest.raises(Unreachable, match="the head's list breaks off"):
        list(_entries([document(ENTRIES)[:kept]]))


def test_a_plain_table_is_aligned_by_its_widest_cells() -> None:
    columns = (Column("SIZE", right=True), Column("NAME"))
    shown = render_plain(columns, [Section("", [("1,000", "{a}"), ("2", "bb ")]), Section("more", [], 3)])
    assert shown == " SIZE  NAME\n1,000  {a}\n    2  bb\nmore\n… and 3 more"
