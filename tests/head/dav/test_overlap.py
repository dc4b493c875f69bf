"""A copy or move by WebDAV whose target is its source, inside it or above it changes nothing."""

import os
from pathlib import Path

import pytest

from pit_server.context import Head
from tests.head.dav.test_dav import database_url, dav
from tests.support.clusters.head import Person

__all__ = ["database_url"]

OVERLAPS = [
    ("a/b", "a"),  # the target holds the source
    ("a/b/c", "a"),
    ("a/b/file", "a"),
    ("a", "a/b"),  # the target is inside the source
    ("a", "a/new"),
    ("a", "a"),
    ("link/b", "a"),  # the same by a link
    ("a", "link/b/new"),
    ("link/b", "a/b"),
    ("link/b/file", "a/b/file"),
]


@pytest.fixture
def tree(root: Person, head: Head) -> Path:
    home = head.data.home("root")
    (home / "a" / "b" / "c").mkdir(parents=True)
    (home / "a" / "b" / "file").write_text("content")
    (home / "link").symlink_to("a")
    return home


def everything(home: Path) -> list[str]:
    return sorted(os.path.relpath(path, home) for path in home.rglob("*"))


def test_nothing_is_changed(root: Person, head: Head, tree: Path) -> None:
    before = everything(tree)
    for source, target in OVERLAPS:
        for method in ("MOVE", "COPY"):
            # An admin's home has two names.
            for prefix in ("home", "users/root"):
                headers = {"Destination": f"/dav/{prefix}/{target}"}
                answer = dav(root, method, f"home/{source}", headers=headers)
                assert answer.status_code in (403, 409), (method, source, prefix, target, answer.text)
                assert everything(tree) == before, (method, source, prefix, target)
    assert (tree / "a" / "b" / "file").read_text() == "content"
    assert list(head.data.trash.iterdir()) == []


def test_a_neighbour_with_a_similar_name_is_no_overlap(root: Person, tree: Path) -> None:
    (tree / "ab").mkdir()
    moved = dav(root, "MOVE", "home/a/b", headers={"Destination": "/dav/home/ab"})
    assert moved.status_code in (201, 204)
    assert (tree / "ab" / "file").read_text() == "content"
