"""`.pitignore` matches the same files in the project and in nested repositories."""

from pathlib import Path

import pytest

from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.ignore import literal_pattern, patterns_below
from pit.snapshot.repository import Repository
from tests.project_states import STATES, contents
from tests.support.git_projects import git, receive

FILES = ("a.ckpt", "data/x", "deep/data/x", "deep/a.ckpt", "runs/1/log", "keep", "lib/x", "#x", "in ner/x")


def ignored(place: Path, patterns: bytes, below: str = "") -> set[str]:
    """The `FILES` below a directory that git ignores with these patterns."""
    place.mkdir()
    git(place, "init", "-q")
    (place / ".gitignore").write_bytes(patterns)
    asked = "\0".join(below + name for name in FILES).encode()
    args = ("check-ignore", "--no-index", "--verbose", "--non-matching", "-z", "--stdin")
    try:
        words = git(place, *args, input=asked).split("\0")
    except Exception as error:  # git's exit code if none is ignored
        words = error.output.decode().split("\0")  # type: ignore[attr-defined]
    rows = zip(words[::4], words[2::4], words[3::4], strict=False)
    return {path.removeprefix(below) for source, rule, path in rows if source and not rule.startswith("!")}


@pytest.mark.parametrize(
    "patterns",
    [
        b"*.ckpt\n",
        b"data/\n",
        b"/data/\n",
        b"/vendor/lib/data/\n",
        b"vendor/lib/data\n",
        b"vendor/*/data\n",
        b"vendor/**/data/\n",
        b"**/data\n",
        b"vendor/**\n",
        b"vendor/\n",
        b"lib\n",
        b"/lib\n",
        b"/other/lib/data\n",
        b"ve[n-x]d?r/l*/*.ckpt\n",
        b"ve\\ndor/lib/keep\n",
        b"# vendor/lib\n\n   \nvendor/lib/runs/*/log  \n",
        b"\\#x\n",
        b"*.ckpt\n!/vendor/lib/a.ckpt\n",
        b"vendor/lib/*\n!vendor/lib/keep\n",
        b"vendor/lib/in\\ ner/\r\n*.ckpt\r\n",
    ],
)
def test_a_pattern_at_the_root_matches_the_same_files_below(patterns: bytes, tmp_path: Path) -> None:
    outside = ignored(tmp_path / "outer", patterns, "vendor/lib/")
    assert ignored(tmp_path / "inner", patterns_below(patterns, b"vendor/lib")) == outside


@pytest.mark.parametrize("name", ["a b ", "*", "!x", "#x", "[a]", "q?", "back\\slash", "tab\there"])
def test_a_literal_pattern_matches_only_its_path(name: str, checkout: Path) -> None:
    (checkout / ".gitignore").write_bytes(literal_pattern(name.encode()) + b"\n")
    (checkout / name).write_text("")
    (checkout / "other").write_text("")
    listed = git(checkout, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
    assert listed == [".gitignore", "other", ""]


def test_pitignore_at_the_root_applies_in_submodules(checkout: Path, tmp_path: Path) -> None:
    STATES["submodule_within_submodule"](checkout)
    (checkout / ".pitignore").write_text("*.ckpt\n/lib/runs/\nlib/inner/own\n!kept.ckpt\n")
    (checkout / "lib" / "runs").mkdir()
    for name in ("a.ckpt", "runs/log", "kept.ckpt", "new", "inner/b.ckpt", "inner/own", "inner/new"):
        (checkout / "lib" / name).write_text(name)
    (checkout / "lib" / ".pitignore").write_text("new\n!/inner/new\n")
    worktree = WorktreeSnapshot(Repository.find(checkout), tmp_path / "scratch")
    arrived = {
        name.decode() for name in contents(receive(worktree, tmp_path, None)) if name.startswith(b"lib/")
    }
    assert arrived == {
        *("lib/lib.py", "lib/.gitmodules", "lib/.pitignore", "lib/kept.ckpt"),
        *("lib/inner/deep.py", "lib/inner/new"),
    }
