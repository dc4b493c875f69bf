"""A later job of the same tree gets a copy of the first checkout, and starts no git for it."""

import os
from pathlib import Path

import pytest

from pit_server.context import Head
from pit_server.store.git.tree_cache import COPIED_FILES, SIZE, TreeCache, open_cache
from tests.support.clusters.head import ONE_DATABASE, Person, prepare
from tests.support.snapshots import Project, a_project, listing

TREE = "a" * 40


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(**{".compute": "echo\n", "sub__b.bin": bytes(range(256)), "empty": ""})
    (project.path / "run").write_text("#!/bin/sh\n")
    (project.path / "run").chmod(0o755)
    (project.path / "link").symlink_to("sub/b.bin")
    return project


def source_of(head: Head, person: Person, number: int) -> Path:
    prepare(head, number)
    record = person.job(number)
    assert record["state"] == "waiting", record["reason"]
    return head.data.attempt(number, 1) / "src"


@ONE_DATABASE
@pytest.mark.usefixtures("node")
def test_a_second_job_of_a_tree_needs_no_git_and_no_objects(
    head: Head, anna: Person, project: Project
) -> None:
    snapshot = {**project.snapshot(anna), "committed": None}  # with it, git counts the changes
    numbers = [anna.submit(command=None, snapshot=snapshot) for _ in range(2)]
    first = source_of(head, anna, numbers[0])
    (first / "sub/b.bin").write_bytes(b"changed by the job")
    (first / "more").touch()
    (store,) = head.data.stores().iterdir()
    (store / "objects").rename(store / "gone")
    second = source_of(head, anna, numbers[1])
    (store / "gone").rename(store / "objects")
    assert listing(second) == listing(project.path)
    assert os.access(second / "run", os.X_OK)


def a_checkout(place: Path, files: int = 1, text: str = "content\n") -> Path:
    place.mkdir()
    for number in range(files):
        (place / f"{number}.txt").write_text(text)
    return place


def test_a_tree_is_kept_for_its_own_store(tmp_path: Path) -> None:
    cache = TreeCache(tmp_path / "trees", 1, 1_000_000)
    cache.add(TREE, a_checkout(tmp_path / "checkout"))
    assert cache.copy(TREE, tmp_path / "copy")
    assert (tmp_path / "copy/0.txt").read_text() == "content\n"
    assert not TreeCache(tmp_path / "trees", 2, 1_000_000).copy(TREE, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_trees_that_were_not_used_for_longest_give_way(tmp_path: Path) -> None:
    cache = TreeCache(tmp_path / "trees", 1, 25)
    checkout = a_checkout(tmp_path / "checkout", text="ten bytes\n")
    names = [letter * 40 for letter in "abc"]
    for age, name in enumerate(names):
        cache.add(name, checkout)
        os.utime(tmp_path / f"trees/1/{name}{SIZE}", (1000 + age, 1000 + age))
    assert [cache.has(name) for name in names] == [False, True, True]
    assert cache.copy(names[1], tmp_path / "copy")  # which makes it the latest
    cache.add("d" * 40, checkout)
    assert [cache.has(name) for name in (*names, "d" * 40)] == [False, True, False, True]
    assert sorted(path.name for path in (tmp_path / "trees/1").iterdir() if path.is_dir()) == sorted(
        [names[1], "d" * 40]
    )


def test_a_large_tree_is_kept_only_where_blocks_can_be_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pit_server.store.git.tree_cache._share", lambda *_: False)
    cache = TreeCache(tmp_path / "trees", 1, 1_000_000)
    cache.add(TREE, a_checkout(tmp_path / "checkout", COPIED_FILES + 1))
    assert not cache.has(TREE)
    assert list((tmp_path / "trees/1").iterdir()) == []


def test_trees_of_an_earlier_boot_are_deleted(tmp_path: Path) -> None:
    checkout = a_checkout(tmp_path / "checkout")
    open_cache(tmp_path, "first", 1, 1_000_000).add(TREE, checkout)
    assert open_cache(tmp_path, "first", 1, 1_000_000).has(TREE)
    assert not open_cache(tmp_path, "second", 1, 1_000_000).has(TREE)
    assert list((tmp_path / "trees").iterdir()) == []
    nothing = open_cache(tmp_path, "", 1, 1_000_000)  # who cannot tell boots apart keeps nothing
    nothing.add(TREE, checkout)
    assert not nothing.has(TREE)
