"""What comes from the head into a project does not become a part of it."""

import shutil
from pathlib import Path

import pytest

from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.exclude import leaving_out
from pit.snapshot.repository import Repository
from tests.support.git_projects import git


@pytest.fixture(autouse=True)
def in_project(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)


def excluded(top: Path) -> list[str]:
    lines = (top / ".git/info/exclude").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_new_files_and_directories_are_left_out(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = WorktreeSnapshot(Repository.find(checkout), tmp_path / "before").tree
    targets = [Path("runs"), Path("runs/a/model.bin"), Path("loose [1].bin")]
    with leaving_out(targets):
        Path("runs/a").mkdir(parents=True)
        for target in targets[1:]:
            target.write_text("weights")
    assert git(checkout, "status", "--porcelain") == ""
    assert WorktreeSnapshot(Repository.find(checkout), tmp_path / "after").tree == before
    assert excluded(checkout) == ["/runs/", "/loose\\ \\[1].bin"]
    assert capsys.readouterr().err == (
        "pit: 2 new paths are ignored by git and `pit run` from now on: .git/info/exclude names them\n"
    )


def test_what_was_there_before_stays_a_part_of_the_project(checkout: Path) -> None:
    (checkout / "runs").mkdir()
    (checkout / "runs/mine").write_text("mine")
    with leaving_out([Path("runs"), Path("runs/mine"), Path("runs/theirs"), Path("model.py")]):
        Path("runs/theirs").write_text("theirs")
        Path("runs/mine").write_text("overwritten")
    assert excluded(checkout) == ["/runs/theirs"]


def test_what_is_ignored_already_is_not_named_again(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / ".gitignore").write_text("*.bin\n")
    with leaving_out([Path("model.bin")]):
        Path("model.bin").write_text("weights")
    assert (excluded(checkout), capsys.readouterr().err) == ([], "")


def test_what_an_interrupted_copy_leaves_is_left_out(checkout: Path) -> None:
    with pytest.raises(KeyboardInterrupt), leaving_out([Path("runs"), Path("other")]):
        Path("runs").mkdir()
        raise KeyboardInterrupt
    assert excluded(checkout) == ["/runs/"]


@pytest.mark.threat("S51")
def test_a_repository_that_arrives_is_not_used(checkout: Path, tmp_path: Path) -> None:
    """Whoever wrote what is pulled could choose the file that pit appends to."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    place = tmp_path / "plain"
    place.mkdir()
    with leaving_out([place / ".git", place / "x; evil"]):
        git(place, "init", "-q")
        (place / ".git/info/exclude").unlink(missing_ok=True)
        (place / ".git/info").mkdir(exist_ok=True)
        (place / ".git/info/exclude").symlink_to(victim)
        (place / "x; evil").touch()
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("name", ["info", "info/exclude"])
def test_a_link_in_the_repository_is_not_written_through(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "victim").mkdir()
    victim = tmp_path / "victim" / "exclude"
    victim.write_text("mine")
    shutil.rmtree(checkout / ".git/info")
    if name == "info":
        (checkout / ".git/info").symlink_to(victim.parent)
    else:
        (checkout / ".git/info").mkdir()
        (checkout / ".git/info/exclude").symlink_to(victim)
    with leaving_out([Path("x")]):
        Path("x").touch()
    assert victim.read_text() == "mine"
    assert "pit: x is not ignored by git: .git/info/exclude cannot be written" in capsys.readouterr().err


def test_outside_of_a_project_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plain").mkdir()
    monkeypatch.chdir(tmp_path / "plain")
    with leaving_out([Path("x")]):
        Path("x").write_text("x")
    assert capsys.readouterr().err == ""
