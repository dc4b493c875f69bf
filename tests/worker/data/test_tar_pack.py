"""Job directories on their way: what is packed is what is unpacked, and nothing leads out of a tree."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from pit_protocol.problem import Problem
from pit_protocol.transport.dirfd import DirectoryTree
from pit_protocol.transport.tar_extract import extract_into
from pit_protocol.transport.tar_reader import DIRECTORY, FILE, LINK, Member
from pit_protocol.transport.tar_writer import header, padding, sealed
from pit_worker.data import manifest
from pit_worker.data.tar_pack import pack

ODD = ("with blank", "new\nline", "emoji \U0001f40d", os.fsdecode(b"latin-\xe9"), "-rf")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub" / "deep").mkdir(parents=True)
    for name in ODD:
        (root / name).write_text(name, errors="surrogateescape")
    (root / "sub" / "program").write_text("#!/bin/sh\n")
    (root / "sub" / "program").chmod(0o755)
    (root / "sub" / "large").write_bytes(os.urandom(1_000_000))
    (root / "sub" / "link").symlink_to("program")
    os.mkfifo(root / "pipe")
    return root


def unpack(chunks: Iterable[bytes], target: Path) -> None:
    """As a node takes in a tree."""
    with DirectoryTree.at(target, follow=False) as tree:
        extract_into(tree, chunks, overwrite=False, keep_modes=True, must_be_sealed=True)


def all_of(root: Path) -> dict[str, bytes | str]:
    found: dict[str, bytes | str] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        found[name] = (
            f"to {path.readlink()}" if path.is_symlink() else path.read_bytes() if path.is_file() else "/"
        )
    return found


def test_what_was_packed_is_what_is_unpacked(tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    unpack(pack(tree, sorted(manifest.scan(tree).known), {}), target)
    (tree / "pipe").unlink()
    assert all_of(target) == all_of(tree)
    assert os.access(target / "sub" / "program", os.X_OK)


def test_changes_are_found_and_only_those(tree: Path) -> None:
    known = manifest.scan(tree)
    (tree / "sub" / "new").write_text("new")
    (tree / "sub" / "program").write_text("#!/bin/no\n")  # of the same size
    (tree / "-rf").unlink()
    (tree / "sub" / "link").unlink()
    (tree / "sub" / "link").mkdir()
    changes, now = known.compare(tree)
    assert changes.changed == ("sub/link", "sub/new", "sub/program")
    assert changes.gone == ("-rf", "sub/link")
    assert now.compare(tree)[0] == manifest.Changes((), ())


def test_a_manifest_survives_being_saved(tree: Path, tmp_path: Path) -> None:
    known = manifest.scan(tree)
    known.save(tmp_path / "manifest")
    assert manifest.load(tmp_path / "manifest").compare(tree)[0] == manifest.Changes((), ())


def test_a_path_that_a_job_swaps_for_a_link_is_not_followed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "large").write_text("SECRET")
    wanted = sorted(manifest.scan(tree).known)
    for name in ("program", "large", "link"):
        (tree / "sub" / name).unlink()
    (tree / "sub" / "deep").rmdir()
    (tree / "sub").rmdir()
    (tree / "sub").symlink_to(tmp_path / "secret")
    assert b"SECRET" not in b"".join(pack(tree, wanted, {}))


@pytest.mark.parametrize(
    "members",
    [
        [("../x", FILE, "")],
        [("/tmp/pit-test-x", FILE, "")],
        [("a/../../x", FILE, "")],
        [("link", LINK, ".."), ("link/x", FILE, "")],
        [("link", LINK, "x"), ("link", FILE, "")],
        [("dir", DIRECTORY, ""), ("dir", LINK, ".."), ("dir/x", FILE, "")],
    ],
)
def test_no_member_of_a_tar_leads_out_of_the_tree(
    tmp_path: Path, members: list[tuple[str, bytes, str]]
) -> None:
    target = tmp_path / "below" / "target"
    target.mkdir(parents=True)
    pieces = [header(Member(name, kind, 0o644, 0, 0.0, to)) for name, kind, to in members]
    with pytest.raises((Problem, OSError)):
        unpack(sealed(pieces), target)
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["target"]


def test_a_tree_that_breaks_off_is_not_taken_for_a_whole_one(tree: Path, tmp_path: Path) -> None:
    whole = b"".join(pack(tree, ["sub", "sub/large"], {}))
    for end in (len(whole) - 1600, 3000):
        target = tmp_path / str(end)
        target.mkdir()
        with pytest.raises(Problem):
            unpack([whole[:end]], target)
    file = b"x" * 100
    unsealed = header(Member("f", FILE, 0o644, 100, 0.0, "")) + file + padding(100) + b"\0" * 1024
    (tmp_path / "unsealed").mkdir()
    with pytest.raises(Problem):
        unpack([unsealed], tmp_path / "unsealed")


def test_more_directories_than_can_be_open_at_once_are_all_found(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / str(number) / "below").mkdir(parents=True)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        found = manifest.scan(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(found.known) == 600 and not found.unread


def test_a_terabyte_of_holes_is_left_out_and_reported(tree: Path) -> None:
    with (tree / "sparse").open("wb") as file:
        file.truncate(2**40)
    unread: dict[str, str] = {}
    assert sum(map(len, pack(tree, ["sparse", "sub/program"], unread))) < 10_000
    assert unread == {"sparse": "its 1,099,511,627,776 bytes are a hole but for 0"}


def test_what_its_owner_may_not_read_is_made_readable(tmp_path: Path) -> None:
    """As a user, for root may read everything."""
    tmp_path.chmod(0o777)
    script = """if True:
        import os, sys
        from pathlib import Path
        from pit_worker.data import manifest
        from pit_worker.data.tar_pack import pack
        os.chdir(sys.argv[1])  # what is above may be root's alone
        if os.geteuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        root = Path("tree")
        (root / "shut").mkdir(parents=True)
        (root / "shut/file").write_text("SECRET")
        (root / "shut/file").chmod(0)
        (root / "shut").chmod(0)
        found = manifest.scan(root)
        print(sorted(found.known), found.unread, b"SECRET" in b"".join(pack(root, found.known, {})))
    """
    assert _python(script, str(tmp_path)) == "['shut', 'shut/file'] {} True"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what it does not own")
def test_an_unreadable_directory_is_reported_and_not_taken_for_gone(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "tree/shut").mkdir(parents=True)
    (tmp_path / "tree/shut/file").touch()
    (tmp_path / "tree/open").touch()
    manifest.scan(tmp_path / "tree").save(tmp_path / "manifest")
    (tmp_path / "manifest").chmod(0o644)
    (tmp_path / "tree/shut").chmod(0o700)
    script = """if True:
        import os, sys
        from pathlib import Path
        from pit_worker.data import manifest
        os.chdir(sys.argv[1])
        known = manifest.load(Path("manifest"))
        if os.geteuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        changes, now = known.compare(Path("tree"))
        print(changes.gone, now.unread)
    """
    assert _python(script, str(tmp_path)) == "() {'shut': 'permission denied'}"


def _python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True, timeout=120
    )
    return done.stdout.strip()
