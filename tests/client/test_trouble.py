"""A work tree that cannot be read, or changes meanwhile: what is told, and what is done about it."""

import os
import shutil
import socket
from pathlib import Path

import pytest

from pit.project import Project
from pit.snapshot import Shot
from pit.trouble import Unsteady, explain, refuse_unreadable
from pit_protocol.problem import Problem
from tests.client.projects import receive
from tests.states import STATES, commit, contents


def shoot(top: Path, tmp_path: Path) -> Shot:
    return Shot(Project.find(top), tmp_path / "scratch")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "open(\"data/x\"): Permission denied\nunable to index file 'data/x'\nadding files failed",
            "data/x cannot be read",
        ),
        (
            "open(\"a b\"): No such file or directory\nunable to index file 'a b'",
            "a b changes while it is read",
        ),
        ("pathspec 'new' did not match any files", "new changes while it is read"),
        ("short read while indexing log.txt", "log.txt changes while it is read"),
        ("x: can only add regular files, symbolic links or git-directories", "x changes while it is read"),
        ("unable to write file: No space left on device", "there is no room for a copy of what is new"),
        ("invalid path '.Git'\nunable to add '.Git' to index", "git takes no file by the name of .Git"),
        ("something else", "`git add`: something else"),
    ],
)
def test_what_git_says_of_a_file_becomes_a_sentence(said: str, told: str) -> None:
    first, _, rest = said.partition("\n")
    assert explain(Problem("git", f"`git add`: {first}", rest)).message == told


def test_a_directory_that_git_passes_over_is_told() -> None:
    with pytest.raises(Problem, match="data/deep/ cannot be read") as raised:
        refuse_unreadable("warning: could not open directory 'data/deep/': Permission denied\n")
    assert raised.value.hint == "`chmod` it, or name it in .gitignore or .pitignore"


class TestOdd:
    """What is no file, directory or link."""

    def test_it_is_named_and_left_out(self, checkout: Path, tmp_path: Path) -> None:
        (checkout / "new").mkdir()
        (checkout / "new" / "file").write_text("file\n")
        os.mkfifo(checkout / "new" / "fifo")
        os.mkfifo(checkout / "pipe")
        with socket.socket(socket.AF_UNIX) as door:
            door.bind("socket")
            shot = shoot(checkout, tmp_path)
            notes = shot.late_notes()
        assert notes == [
            "left out, for they are neither files, directories nor links: new/fifo, pipe, socket"
        ]
        assert contents(receive(shot, tmp_path, None)).keys() == {
            *(b".compute", b"model.py", b"data.bin", b"new/file")
        }

    def test_it_is_told_of_a_clean_project_too(self, checkout: Path, tmp_path: Path) -> None:
        os.mkfifo(checkout / "pipe")
        shot = shoot(checkout, tmp_path)
        assert shot.late_notes() == ["left out, for they are neither files, directories nor links: pipe"]
        assert shot.tree == shot.committed

    def test_in_the_place_of_a_tracked_file_that_is_deleted(self, checkout: Path, tmp_path: Path) -> None:
        (checkout / "model.py").unlink()
        os.mkfifo(checkout / "model.py")
        shot = shoot(checkout, tmp_path)
        assert "links: model.py" in shot.late_notes()[0]
        assert shot.differences() == [("D", b"model.py")]

    def test_what_git_ignores_is_not_told(self, checkout: Path, tmp_path: Path) -> None:
        (checkout / ".gitignore").write_text("*.sock\n")
        (checkout / ".pitignore").write_text("pipe\n")
        commit(checkout)
        os.mkfifo(checkout / "pipe")
        os.mkfifo(checkout / "x.sock")
        assert shoot(checkout, tmp_path).late_notes() == []

    def test_in_a_submodule_it_is_named_by_its_whole_path(self, checkout: Path, tmp_path: Path) -> None:
        STATES["submodule"](checkout)
        os.mkfifo(checkout / "lib" / "pipe")
        assert "links: lib/pipe" in shoot(checkout, tmp_path).late_notes()[0]


class TestChanging:
    """Files that are there when git lists them, and not any more when it reads them."""

    @pytest.fixture
    def meanwhile(self, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A script that is run `before` and `after` each time that git adds files."""
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

    def test_one_that_is_gone_is_not_taken(self, meanwhile: Path, checkout: Path, tmp_path: Path) -> None:
        (checkout / "here").write_text("here\n")
        (checkout / "gone").write_text("gone\n")
        meanwhile.write_text("rm -f gone\n")
        assert contents(receive(shoot(checkout, tmp_path), tmp_path, None)) == contents(checkout)

    def test_one_that_became_a_pipe_is_left_out(
        self, meanwhile: Path, checkout: Path, tmp_path: Path
    ) -> None:
        (checkout / "model.py").write_text("changed\n")
        meanwhile.write_text("rm -f model.py; mkfifo model.py\n")
        shot = shoot(checkout, tmp_path)
        assert "links: model.py" in shot.late_notes()[0]
        assert b"model.py" not in contents(receive(shot, tmp_path, None))

    def test_one_that_never_rests_is_named(self, meanwhile: Path, checkout: Path, tmp_path: Path) -> None:
        (checkout / "model.py").write_text("changed\n")
        meanwhile.write_text("rm model.py; test $1 = before && mkfifo model.py || echo changed > model.py\n")
        with pytest.raises(Unsteady, match=r"model\.py changes while it is read") as raised:
            shoot(checkout, tmp_path)
        assert (
            raised.value.hint == "try again when nothing writes to it, or name it in .gitignore or .pitignore"
        )


class TestPartialClone:
    @pytest.fixture
    def partial(self, checkout: Path) -> Path:
        """A clone that has only the objects of what is checked out; its remote is away."""
        top = STATES["partial_clone"](checkout)
        assert top
        (checkout.parent / "remote.git").rename(checkout.parent / "away.git")
        return top

    def test_without_its_remote_the_files_go_without_the_commit(self, partial: Path, tmp_path: Path) -> None:
        shot = shoot(partial, tmp_path)
        assert contents(receive(shot, tmp_path, None)) == contents(partial)
        assert shot.notes == [
            "this is a partial clone, and not all of its commit is here: only the files are sent"
        ]
        assert (shot.commit, shot.committed, shot.count_lines()) == (None, None, 0)

    def test_an_object_that_is_missing_is_told(self, partial: Path) -> None:
        with pytest.raises(Problem, match="of this repository is not here, as in a partial clone") as raised:
            Project.find(partial).run("cat-file", "blob", "HEAD:far/file")
        assert "--refetch" in raised.value.hint
