"""Work trees that cannot be read or that change while they are read."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.read_errors import WorktreeChanged, explain_add_error, raise_if_unreadable
from pit.snapshot.repository import Repository
from pit_protocol.problem import Problem
from tests.project_states import STATES, commit, contents
from tests.support.git_projects import receive


def take_snapshot(top: Path, tmp_path: Path) -> WorktreeSnapshot:
    return WorktreeSnapshot(Repository.find(top), tmp_path / "scratch")


@pytest.mark.parametrize(
    ("stderr", "message"),
    [
        (
            "open(\"data/x\"): Permission denied\nunable to index file 'data/x'\nadding files failed",
            "data/x cannot be read",
        ),
        (
            "open(\"a b\"): No such file or directory\nunable to index file 'a b'",
            "a b changed while it was read",
        ),
        ("pathspec 'new' did not match any files", "new changed while it was read"),
        ("short read while indexing log.txt", "log.txt changed while it was read"),
        ("x: can only add regular files, symbolic links or git-directories", "x changed while it was read"),
        (
            "unable to write file: No space left on device",
            "there is no space left for a copy of the changed files",
        ),
        ("invalid path '.Git'\nunable to add '.Git' to index", "git does not accept the file name .Git"),
        ("something else", "`git add`: something else"),
    ],
)
def test_an_error_of_git_add_becomes_one_about_the_file(stderr: str, message: str) -> None:
    first, _, rest = stderr.partition("\n")
    assert explain_add_error(Problem("git", f"`git add`: {first}", rest)).message == message


def test_a_directory_that_git_skips_is_an_error() -> None:
    with pytest.raises(Problem, match="data/deep/ cannot be read") as raised:
        raise_if_unreadable("warning: could not open directory 'data/deep/': Permission denied\n")
    assert raised.value.hint == "`chmod` it, or name it in .gitignore or .pitignore"


class TestSpecialFiles:
    """Pipes, sockets and devices."""

    def test_special_files_are_listed_and_left_out(self, checkout: Path, tmp_path: Path) -> None:
        (checkout / "new").mkdir()
        (checkout / "new" / "file").write_text("file\n")
        os.mkfifo(checkout / "new" / "fifo")
        os.mkfifo(checkout / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
            worktree = take_snapshot(checkout, tmp_path)
            notes = worktree.slow_notes()
        assert notes == ["left out because they are not files, directories or links: new/fifo, pipe, socket"]
        assert contents(receive(worktree, tmp_path, None)).keys() == {
            *(b".compute", b"model.py", b"data.bin", b"new/file")
        }

    def test_special_files_are_listed_for_a_clean_project(self, checkout: Path, tmp_path: Path) -> None:
        os.mkfifo(checkout / "pipe")
        worktree = take_snapshot(checkout, tmp_path)
        assert worktree.slow_notes() == ["left out because they are not files, directories or links: pipe"]
        assert worktree.tree == worktree.committed

    def test_a_tracked_file_replaced_by_a_pipe_is_deleted(self, checkout: Path, tmp_path: Path) -> None:
        (checkout / "model.py").unlink()
        os.mkfifo(checkout / "model.py")
        worktree = take_snapshot(checkout, tmp_path)
        assert "links: model.py" in worktree.slow_notes()[0]
        assert worktree.differences() == [("D", b"model.py")]

    def test_ignored_special_files_are_not_listed(self, checkout: Path, tmp_path: Path) -> None:
        (checkout / ".gitignore").write_text("*.sock\n")
        (checkout / ".pitignore").write_text("pipe\n")
        commit(checkout)
        os.mkfifo(checkout / "pipe")
        os.mkfifo(checkout / "x.sock")
        assert take_snapshot(checkout, tmp_path).slow_notes() == []

    def test_in_a_submodule_the_whole_path_is_listed(self, checkout: Path, tmp_path: Path) -> None:
        STATES["submodule"](checkout)
        os.mkfifo(checkout / "lib" / "pipe")
        assert "links: lib/pipe" in take_snapshot(checkout, tmp_path).slow_notes()[0]


class TestChangingFiles:
    """Files that change between git's listing and reading."""

    @pytest.fixture
    def meanwhile(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A script that runs with `before` and `after` around each `git add`."""
        script, place = checkout.parent / "meanwhile", checkout.parent / "bin"
        place.mkdir()
        real = shutil.which("git")
        (place / "git").write_text(
            f'#!/bin/sh\ncase " $* " in\n*" add "*) sh {script} before; {real} "$@"; code=$?\n'
            f'sh {script} after; exit $code;;\nesac\nexec {real} "$@"\n'
        )
        (place / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
        return script

    def test_a_file_that_disappears_is_not_captured(
        self, meanwhile: Path, checkout: Path, tmp_path: Path
    ) -> None:
        (checkout / "here").write_text("here\n")
        (checkout / "gone").write_text("gone\n")
        meanwhile.write_text("rm -f gone\n")
        assert contents(receive(take_snapshot(checkout, tmp_path), tmp_path, None)) == contents(checkout)

    def test_a_file_that_becomes_a_pipe_is_left_out(
        self, meanwhile: Path, checkout: Path, tmp_path: Path
    ) -> None:
        (checkout / "model.py").write_text("changed\n")
        meanwhile.write_text("rm -f model.py; mkfifo model.py\n")
        worktree = take_snapshot(checkout, tmp_path)
        assert "links: model.py" in worktree.slow_notes()[0]
        assert b"model.py" not in contents(receive(worktree, tmp_path, None))

    def test_a_file_that_keeps_changing_is_an_error(
        self, meanwhile: Path, checkout: Path, tmp_path: Path
    ) -> None:
        (checkout / "model.py").write_text("changed\n")
        meanwhile.write_text("rm model.py; test $1 = before && mkfifo model.py || echo changed > model.py\n")
        with pytest.raises(WorktreeChanged, match=r"model\.py changed while it was read") as raised:
            take_snapshot(checkout, tmp_path)
        assert (
            raised.value.hint == "try again when nothing writes to it, or name it in .gitignore or .pitignore"
        )


class TestPartialClone:
    @pytest.fixture
    def partial(self, checkout: Path) -> Path:
        """A clone with only the objects that are checked out; its remote cannot be reached."""
        top = STATES["partial_clone"](checkout)
        assert top
        (checkout.parent / "remote.git").rename(checkout.parent / "away.git")
        return top

    def test_without_the_remote_only_the_files_are_sent(self, partial: Path, tmp_path: Path) -> None:
        worktree = take_snapshot(partial, tmp_path)
        assert contents(receive(worktree, tmp_path, None)) == contents(partial)
        assert worktree.notes == [
            "this is a partial clone that is missing parts of its commit: only the files are sent"
        ]
        assert (worktree.commit, worktree.committed, worktree.count_lines()) == (None, None, 0)

    def test_a_missing_object_is_an_error(self, partial: Path) -> None:
        with pytest.raises(Problem, match="is missing from this repository") as raised:
            Repository.find(partial).run("cat-file", "blob", "HEAD:far/file")
        assert "--refetch" in raised.value.hint
