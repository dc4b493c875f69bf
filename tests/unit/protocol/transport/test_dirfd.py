"""Directories by descriptor."""

import os
from pathlib import Path

import pytest

from pit_protocol.transport.dirfd import MOST_OPEN, DirectoryTree


def test_more_directories_than_are_kept_open(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(MOST_OPEN + 10)]
    before = len(list(Path("/dev/fd").iterdir()))
    with DirectoryTree.at(tmp_path) as tree:
        for name in (*names, *names):
            place = tree.directory([name, "below"], make=0o755)
            os.close(os.open("file", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=place))
        assert len(list(Path("/dev/fd").iterdir())) <= before + MOST_OPEN + 1
    assert len(list(Path("/dev/fd").iterdir())) == before
    assert len(list(tmp_path.glob("*/below/file"))) == len(names)


def test_a_missing_directory_is_made_only_if_asked(tmp_path: Path) -> None:
    with DirectoryTree.at(tmp_path) as tree:
        with pytest.raises(FileNotFoundError):
            tree.directory(["a", "b"])
        assert tree.get_status(["a", "b"]) is None
    assert not (tmp_path / "a").exists()


def test_a_clone_outlives_its_tree_and_a_closed_tree_has_none(tmp_path: Path) -> None:
    with DirectoryTree.at(tmp_path) as tree:
        clone = tree.clone()
    with clone:
        clone.directory(["made"], make=0o755)
    assert (tmp_path / "made").is_dir()
    with pytest.raises(OSError, match="Bad file descriptor"):
        tree.clone()
