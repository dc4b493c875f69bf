"""Pulling what others wrote: nothing outside the target is touched, and the copy is the source."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pit.args.remote_path import RemotePath
from pit.commands.pull import _copy
from pit.head.files_api import DIRECTORY, FILE, Content, Entry, FilesApi
from pit.transfer import local_files
from pit.transfer.pull import SMALL, Pull, is_unfinished
from pit.transfer.push import _members
from pit.ui.progress import Bar
from pit_protocol.problem import Problem
from pit_protocol.transport.tar_writer import sealed
from tests.support.git_projects import git

SOURCE = RemotePath("group:lab", "data")
BIG = b"big " * (SMALL // 4 + 1)
WAYS = pytest.mark.parametrize("way", ["force", "resume"])
CONTENTS = pytest.mark.parametrize("content", [b"small", BIG], ids=["small", "big"])


class DirectoryRemote(FilesApi):
    """A head whose files are a directory here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.offsets: list[int] = []

    def all_entries(self) -> list[Entry]:
        return list(local_files.walk(self.folder))

    def sha256(self, where: RemotePath, size: int) -> str:
        return hashlib.sha256(self._path(where).read_bytes()).hexdigest()

    def content(self, where: RemotePath, offset: int = 0, etag: str = "") -> Content:
        self.offsets.append(offset)
        body = self._path(where).read_bytes()
        return Content(offset, "tag", len(body), 0.0, iter([body[offset:]]))

    def tar(self, where: RemotePath, names: Iterable[str]) -> Iterator[bytes]:
        wanted = set(names)
        yield from sealed(_members(self.folder, [e for e in self.all_entries() if e.name in wanted]))

    def _path(self, where: RemotePath) -> Path:
        return self.folder / where.path.removeprefix(f"{SOURCE.path}/")


@pytest.fixture
def remote(tmp_path: Path) -> DirectoryRemote:
    (tmp_path / "source").mkdir()
    return DirectoryRemote(tmp_path / "source")


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A directory beside the target that must stay as it is."""
    place = tmp_path / "outside"
    place.mkdir()
    victim = place / "victim"
    victim.write_text("untouched")
    os.utime(victim, (1_000_000_000, 1_000_000_000))
    victim.chmod(0o600)
    yield place
    assert [path.name for path in place.iterdir()] == ["victim"]
    status = victim.stat()
    assert (victim.read_text(), status.st_mtime, oct(status.st_mode & 0o777)) == (
        "untouched",
        1_000_000_000,
        "0o600",
    )


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def pull(remote: DirectoryRemote, target: Path, way: str = "force") -> tuple[int, int]:
    puller = Pull(remote, Bar(None, "data", None, 0), force=way == "force", resume=way == "resume")
    return puller.directory(SOURCE, remote.all_entries(), target)


def part_names(remote: DirectoryRemote, name: str) -> tuple[str, str]:
    """What the flag of a copy, and the part of one of its files, are called: anybody can know that."""
    [entry] = [entry for entry in remote.all_entries() if entry.name == name]
    version = f"{SOURCE.below(name).route} {entry.size} {entry.mtime!r}"
    parts = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in (SOURCE.route, version)]
    return f".pit-{parts[0]}.part", f".pit-{parts[1]}.part"


@WAYS
@CONTENTS
@pytest.mark.threat("S51")
def test_a_link_from_an_earlier_pull_is_not_used_as_a_directory(
    remote: DirectoryRemote, target: Path, outside: Path, way: str, content: bytes
) -> None:
    (remote.folder / "a").symlink_to(outside)
    pull(remote, target)
    (remote.folder / "a").unlink()
    (remote.folder / "a").mkdir()
    (remote.folder / "a" / "victim").write_bytes(content)
    with pytest.raises(Problem, match=f"^{target}/a is a link or a file, not a directory"):
        pull(remote, target, way)
    assert (target / "a").readlink() == outside


@WAYS
@CONTENTS
def test_a_link_of_an_earlier_pull_is_replaced_by_a_file(
    remote: DirectoryRemote, target: Path, outside: Path, way: str, content: bytes
) -> None:
    (remote.folder / "a").symlink_to(outside / "victim")
    (remote.folder / "b").symlink_to(outside)
    pull(remote, target)
    for name in ("a", "b"):
        (remote.folder / name).unlink()
        (remote.folder / name).write_bytes(content)
    pull(remote, target, way)
    for name in ("a", "b"):
        assert not (target / name).is_symlink()
        assert (target / name).read_bytes() == content


@WAYS
@pytest.mark.parametrize("planted", ["victim", "none"])
def test_a_link_with_the_name_of_a_part_is_replaced(
    remote: DirectoryRemote, target: Path, outside: Path, way: str, planted: str
) -> None:
    (remote.folder / "big.bin").write_bytes(BIG)
    target.mkdir()
    for name in part_names(remote, "big.bin"):
        (target / name).symlink_to(outside / planted)
    assert not is_unfinished(SOURCE, target)
    pull(remote, target, way)
    assert [path.name for path in target.iterdir()] == ["big.bin"]
    assert (target / "big.bin").read_bytes() == BIG


@WAYS
@CONTENTS
def test_a_head_that_hides_a_directory_leads_nowhere(
    remote: DirectoryRemote, target: Path, outside: Path, way: str, content: bytes
) -> None:
    (remote.folder / "a").mkdir()
    (remote.folder / "a" / "victim").write_bytes(content)
    target.mkdir()
    (target / "a").symlink_to(outside)
    entries = [entry for entry in remote.all_entries() if entry.kind == FILE]
    puller = Pull(remote, Bar(None, "data", None, 0), force=way == "force", resume=way == "resume")
    with pytest.raises(Problem, match="nothing is written past it"):
        puller.directory(SOURCE, entries, target)


def test_parts_are_not_swept_through_a_link(remote: DirectoryRemote, tmp_path: Path, target: Path) -> None:
    (remote.folder / "a").mkdir()
    (remote.folder / "a" / "file").write_text("file")
    flag, _ = part_names(remote, "a/file")
    kept = tmp_path / "elsewhere" / flag.replace(".part", "-x.part")
    kept.parent.mkdir()
    kept.write_text("kept")
    target.mkdir()
    (target / flag).touch()
    (target / "a").symlink_to(kept.parent)
    with pytest.raises(Problem, match="nothing is written past it"):
        pull(remote, target)
    assert kept.read_text() == "kept"


def test_parts_of_a_killed_pull_are_swept(remote: DirectoryRemote, target: Path) -> None:
    (remote.folder / "a").mkdir()
    (remote.folder / "a" / "file").write_text("file")
    flag, _ = part_names(remote, "a/file")
    (target / "a").mkdir(parents=True)
    (target / flag).touch()
    (target / "a" / flag.replace(".part", "-x.part")).write_text("half")
    pull(remote, target, "resume")
    assert sorted(path.name for path in target.rglob("*")) == ["a", "file"]


def test_a_name_below_the_target_is_no_link_but_the_target_may_be(
    remote: DirectoryRemote, tmp_path: Path, target: Path, outside: Path
) -> None:
    (remote.folder / "file").write_text("file")
    target.mkdir()
    (tmp_path / "own-link").symlink_to(target)
    pull(remote, tmp_path / "own-link")
    assert (target / "file").read_text() == "file"
    (target / "data").symlink_to(outside)
    puller = Pull(remote, Bar(None, "data", None, 0), force=True)
    with pytest.raises(Problem, match=f"^{target}/data is a link or a file"):
        puller.directory(SOURCE, remote.all_entries(), target, "data")


@pytest.mark.threat("S51")
@CONTENTS
def test_a_directory_that_becomes_a_link_during_a_pull_leads_nowhere(
    remote: DirectoryRemote,
    target: Path,
    tmp_path: Path,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes,
) -> None:
    """A process on this machine may swap it when the file begins to arrive, and before it gets its name."""
    (remote.folder / "a").mkdir()
    (remote.folder / "a" / "victim").write_bytes(content)

    def swap_then(answer: Callable[..., object]) -> Callable[..., object]:
        def swap(*arguments: object, **options: object) -> object:
            if not (target / "a").is_symlink():
                (target / "a").rename(tmp_path / "moved")
                (target / "a").symlink_to(outside)
            return answer(*arguments, **options)

        return swap

    for name in ("content", "tar"):
        monkeypatch.setattr(remote, name, swap_then(getattr(remote, name)))
    with suppress(Problem):
        pull(remote, target)
    if (tmp_path / "moved" / "victim").exists():
        assert (tmp_path / "moved" / "victim").read_bytes() == content


@pytest.mark.parametrize("name", ["..", "../outside", "/etc", "a/../../b", ".", "", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(
    remote: DirectoryRemote, target: Path, outside: Path, name: str
) -> None:
    for kind in (FILE, DIRECTORY):
        with pytest.raises(Problem, match="which leads elsewhere"):
            Pull(remote, Bar(None, "data", None, 0)).directory(
                SOURCE, [Entry(name, kind, 1, 0.0, 0o644, "")], target
            )


@CONTENTS
def test_a_directory_in_the_place_of_a_file_stays(
    remote: DirectoryRemote, target: Path, content: bytes
) -> None:
    (remote.folder / "file").write_bytes(content)
    (target / "file" / "own").mkdir(parents=True)
    with pytest.raises(Problem, match="file is a directory here"):
        pull(remote, target)
    assert (target / "file" / "own").is_dir()


def test_a_part_goes_on_where_it_was(remote: DirectoryRemote, target: Path) -> None:
    (remote.folder / "big.bin").write_bytes(BIG)
    (remote.folder / "big.bin").chmod(0o755)
    os.utime(remote.folder / "big.bin", (1_500_000_000, 1_500_000_000))
    _, part = part_names(remote, "big.bin")
    target.mkdir()
    (target / part).write_bytes(BIG[:1000])
    pull(remote, target, "resume")
    status = (target / "big.bin").stat()
    assert (target / "big.bin").read_bytes() == BIG
    assert (status.st_mtime, oct(status.st_mode & 0o777)) == (1_500_000_000, "0o755")
    assert remote.offsets == [1000]


def test_a_part_longer_than_its_file_begins_again(remote: DirectoryRemote, target: Path) -> None:
    (remote.folder / "big.bin").write_bytes(BIG)
    target.mkdir()
    (target / part_names(remote, "big.bin")[1]).write_bytes(BIG + b"more")
    pull(remote, target, "resume")
    assert (target / "big.bin").read_bytes() == BIG


@CONTENTS
@pytest.mark.parametrize("newer_s", [-1000, 1000])
@pytest.mark.parametrize("change", ["shorter", "longer", "same size"])
def test_going_on_copies_a_file_that_differs_in_size_or_time(
    remote: DirectoryRemote, target: Path, content: bytes, newer_s: int, change: str
) -> None:
    (remote.folder / "file").write_bytes(content)
    os.utime(remote.folder / "file", (1_500_000_000, 1_500_000_000))
    pull(remote, target)
    assert pull(remote, target, "resume") == (0, 0)
    changed = {"shorter": content[:-1], "longer": content + b"x", "same size": content[:-1] + b"x"}[change]
    (target / "file").write_bytes(changed)
    os.utime(target / "file", (1_500_000_000 + newer_s, 1_500_000_000 + newer_s))
    assert pull(remote, target, "resume") == (1, len(content))
    assert (target / "file").read_bytes() == content


def test_a_pulled_directory_in_a_project_is_no_part_of_it(remote: DirectoryRemote, checkout: Path) -> None:
    (remote.folder / "sub").mkdir()
    (remote.folder / "sub" / "model").write_bytes(BIG)
    (checkout / "data").mkdir()
    for name, into in (("", checkout / "data"), ("keep", checkout)):
        _copy(remote, SOURCE, remote.all_entries(), into, name, force=False, resume=False)
    assert (checkout / "keep/sub/model").read_bytes() == (checkout / "data/sub/model").read_bytes() == BIG
    assert git(checkout, "status", "--porcelain") == ""
