"""Copying again over an earlier copy: what differs is replaced, and no link is written through."""

import os
import random
from pathlib import Path

import pytest

from tests.support.clusters.local import Cluster

MIB = 1024 * 1024


@pytest.mark.parametrize("option", ["-f", "-c"])
@pytest.mark.parametrize("size", [100, 5 * MIB])
def test_a_link_that_a_group_member_made_is_not_written_through(
    shared_cluster: Cluster, tmp_path: Path, option: str, size: int
) -> None:
    cluster, tree, local = shared_cluster, tmp_path / "tree", tmp_path / "local"
    victim = tmp_path / "victim" / "big.bin"
    for folder in (tree, local, victim.parent):
        folder.mkdir()
    victim.write_text("untouched")
    group = f"linked{option[1]}{size}"
    cluster.ok("add", f"group:{group}")
    cluster.ok("add-group", "me", group)
    (tree / "a").symlink_to(victim.parent)
    (tree / "b").symlink_to(victim)
    cluster.ok("push", f"group:{group}", str(tree))
    cluster.ok("pull", f"group:{group}", "tree", str(local))
    assert (local / "tree" / "a").readlink() == victim.parent

    body = random.Random(3).randbytes(size)
    (tree / "b").unlink()
    (tree / "b").write_bytes(body)
    cluster.ok("push", "-f", f"group:{group}", str(tree))
    cluster.ok("pull", option, f"group:{group}", "tree", str(local))
    assert (local / "tree" / "b").read_bytes() == body

    (tree / "a").unlink()
    (tree / "a").mkdir()
    (tree / "a" / "big.bin").write_bytes(body)
    cluster.ok("rm", f"group:{group}", "tree")
    cluster.ok("push", f"group:{group}", str(tree))
    refused = cluster.pit("pull", option, f"group:{group}", "tree", str(local))
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"pit: {local}/tree/a is a link or a file, not a directory")
    # The same one level up: what is pulled has the name of a link in LOCAL.
    refused = cluster.pit("pull", option, f"group:{group}", "tree/a", str(local / "tree"))
    assert (refused.code, f"{local}/tree/a is a link" in refused.err) == (1, True)
    assert [(path.name, path.read_text()) for path in victim.parent.iterdir()] == [("big.bin", "untouched")]


@pytest.mark.parametrize("option", ["-f", "-c"])
def test_a_repeated_pull_does_the_same_again(shared_cluster: Cluster, tmp_path: Path, option: str) -> None:
    cluster, tree, copy = shared_cluster, tmp_path / f"same{option[1]}", tmp_path / "copy"
    tree.mkdir()
    (tree / "file").write_text("one")
    cluster.ok("push", "home", str(tree))
    for second, content in enumerate(("one", "two")):
        (tree / "file").write_text(content)
        # -c compares sizes and whole seconds; a fast machine needs less than one for this.
        os.utime(tree / "file", (1_700_000_000 + second,) * 2)
        cluster.ok("push", "-f", "home", str(tree))
        for _ in range(2):
            cluster.ok("pull", option, "home", tree.name, str(copy))
            assert [path.name for path in copy.iterdir()] == ["file"]
        assert (copy / "file").read_text() == content
    # Another directory of that name is one to copy into.
    copy.rename(tmp_path / "away")
    copy.mkdir()
    cluster.ok("pull", option, "home", tree.name, str(copy))
    assert [path.name for path in copy.iterdir()] == [tree.name]


def test_going_on_counts_what_it_copied(shared_cluster: Cluster, tmp_path: Path) -> None:
    cluster, tree = shared_cluster, tmp_path / "counted"
    tree.mkdir()
    (tree / "old").write_text("old")
    cluster.ok("push", "home", str(tree))
    cluster.ok("pull", "home", "counted", str(tmp_path / "to" / "counted"))
    (tree / "other").write_text("other")
    for expected in ((1, 5), (0, 0)):
        for command in (("push", "home", str(tree)), ("pull", "home", "counted", str(tmp_path / "to"))):
            done = cluster.json(*command, "-c")
            assert (done["files"], done["bytes"]) == expected, command
    assert cluster.json("pull", "-c", "home", "counted/old", str(tree))["files"] == 0
    cluster.ok("rm", "home", "counted")


def test_going_on_copies_what_differs_whichever_is_newer(shared_cluster: Cluster, tmp_path: Path) -> None:
    cluster, file = shared_cluster, tmp_path / "kept"
    file.write_text("of now")
    cluster.ok("push", "home", "going-on/kept", str(file))
    for mtime in (1_000_000_000, 4_000_000_000):
        for push in (("going-on/kept", str(file)), ("going-on/", str(tmp_path))):
            file.write_text(f"of {mtime} {push[0]}")
            os.utime(file, (mtime, mtime))
            done = cluster.json("push", "-c", "home", *push)
            assert (done["files"], done["bytes"]) == (1, file.stat().st_size)
            assert cluster.json("push", "-c", "home", *push)["files"] == 0
    sent = file.read_text()
    assert cluster.ok("cat", "home", f"going-on/{tmp_path.name}/kept") == sent
    for mtime in (1_000_000_000, 4_100_000_000):
        file.write_text("short")
        os.utime(file, (mtime, mtime))
        pulled = cluster.json("pull", "-c", "home", f"going-on/{tmp_path.name}/kept", str(file))
        assert (pulled["files"], file.read_text()) == (1, sent)
    cluster.ok("rm", "home", "going-on")
    listed = cluster.pit("cat", "home", "")
    assert (listed.code, listed.out) == (1, "")


def test_going_on_looks_at_the_file_behind_a_link(shared_cluster: Cluster, tmp_path: Path) -> None:
    cluster, tree, copy = shared_cluster, tmp_path / "behind", tmp_path / "copy"
    tree.mkdir()
    (tree / "file").write_text("one")
    (tree / "link").symlink_to("file")
    cluster.ok("push", "home", str(tree))
    cluster.ok("pull", "home", "behind/link", str(copy))
    assert cluster.json("pull", "-c", "home", "behind/link", str(copy))["files"] == 0
    (tree / "file").write_text("two")
    os.utime(tree / "file", (1_000_000_000, 1_000_000_000))
    cluster.ok("push", "-f", "home", "behind/file", str(tree / "file"))
    assert cluster.json("pull", "-c", "home", "behind/link", str(copy))["files"] == 1
    assert copy.read_text() == "two"
    cluster.ok("rm", "home", "behind")
