"""Malicious snapshots: packs and trees that git itself would not create."""

import io
import resource
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.settings import Settings
from tests.support.clusters.head import ONE_DATABASE, Person, a_snapshot, prepare
from tests.support.snapshots import Project, a_project, git

pytestmark = [ONE_DATABASE, pytest.mark.usefixtures("node")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, max_tree_files=1000, max_tree_gib=0.01)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return a_project(tmp_path / "project")


def write(project: Project, kind: str, body: bytes) -> str:
    done = subprocess.run(
        ["git", "hash-object", "-t", kind, "-w", "--literally", "--stdin"],
        cwd=project.path,
        input=body,
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.decode().strip()


def a_tree(project: Project, *entries: tuple[str, bytes, str]) -> str:
    """A tree of raw entries: mode, name, hash."""
    body = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
    return write(project, "tree", body)


def run(head: Head, person: Person, project: Project, tree: str, objects: list[str]) -> dict[str, Any]:
    pack = person.upload(project.pack_of(objects))
    number = person.submit(snapshot=a_snapshot(tree=tree, pack=pack))
    prepare(head, number)
    return person.job(number)


@pytest.mark.parametrize(
    "name",
    [
        b"..",
        b".",
        b".git",
        b".GIT",
        b".Git",
        b"git~1",
        b"GIT~1",
        b".git::$INDEX_ALLOCATION",
        b".git\\x",
        b".git.",
        b".git ",
        b".g\xe2\x80\x8cit",  # with a zero-width character
        b"a/b",
        b"../x",
        b"/tmp/pit-canary",
        b"",
    ],
)
def test_names_that_lead_out_of_the_tree_or_into_git_are_refused(
    head: Head, anna: Person, project: Project, name: bytes
) -> None:
    blob = write(project, "blob", b"x")
    tree = a_tree(project, ("100644", name, blob))
    record = run(head, anna, project, tree, [blob, tree])
    assert record["outcome"] == "failed"
    assert not head.data.attempt(record["number"], 1).exists()
    below = a_tree(project, ("40000", name or b"d", tree))
    assert run(head, anna, project, below, [blob, tree, below])["outcome"] == "failed"
    assert not Path("/tmp/pit-canary").exists()
    assert not (head.data.job(record["number"]) / "x").exists()


def test_nothing_is_written_through_a_link(
    head: Head, anna: Person, project: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    blob, link = write(project, "blob", b"x"), write(project, "blob", str(outside).encode())
    inner = a_tree(project, ("100644", b"passwd", blob))
    for entries in (
        (("120000", b"data", link), ("40000", b"data", inner)),
        (("40000", b"data", inner), ("120000", b"data", link)),
    ):
        tree = a_tree(project, *entries)
        assert run(head, anna, project, tree, [blob, link, inner, tree])["outcome"] == "failed"
    assert list(outside.iterdir()) == []


def test_a_link_to_a_file_of_the_head_stays_a_link(head: Head, anna: Person, project: Project) -> None:
    (project.path / "link").symlink_to("/etc/passwd")
    tree = project.tree()
    record = run(head, anna, project, tree, project.objects(tree))
    assert record["state"] == "waiting"
    for path in ("code", "archive"):
        body = anna.get(f"/jobs/{record['number']}/{path}").data
        with tarfile.open(fileobj=io.BytesIO(body)) as tar:
            found = next(info for info in tar if info.name.endswith("link"))
            assert (found.issym(), found.linkname, found.size) == (True, "/etc/passwd", 0)
        assert b"root:" not in body


@pytest.mark.parametrize(
    "text",
    [
        "url = ext::touch CANARY\n\tupdate = !touch CANARY",
        "url = -u./x",
        "url = file:///etc\n\tupdate = !touch CANARY",
    ],
)
@pytest.mark.threat("S27")
def test_submodules_are_not_touched(
    head: Head, anna: Person, project: Project, tmp_path: Path, text: str
) -> None:
    canary = tmp_path / "canary"
    body = f'[submodule "x"]\n\tpath = x\n\t{text.replace("CANARY", str(canary))}\n'
    modules = write(project, "blob", body.encode())
    tree = a_tree(project, ("100644", b".gitmodules", modules), ("160000", b"x", "1" * 40))
    record = run(head, anna, project, tree, [modules, tree])
    assert "gitmodules" in record["reason"]  # git itself refuses such objects
    assert not canary.exists()


@pytest.mark.parametrize("path", ["x", '"x\r"', '"x\\r"', "../../x", "a/../../x", ".git"])
def test_a_submodule_that_is_only_named_is_left_empty(
    head: Head, anna: Person, project: Project, path: str
) -> None:
    body = f'[submodule "x"]\n\tpath = {path}\n\turl = file:///etc\n'
    modules = write(project, "blob", body.encode())
    tree = a_tree(project, ("100644", b".gitmodules", modules), ("160000", b"x", "1" * 40))
    record = run(head, anna, project, tree, [modules, tree])
    assert record["state"] == "waiting", record["reason"]
    source = head.data.attempt(record["number"], 1) / "src"
    assert list((source / "x").rglob("*")) == []


@pytest.mark.threat("S31")
def test_no_git_is_run_in_a_tree_that_a_job_could_write(
    head: Head, anna: Person, project: Project, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    project.write("a.txt", "one\n")
    tree = project.tree()
    number = run(head, anna, project, tree, project.objects(tree))["number"]
    source = head.data.attempt(number, 1) / "src"
    git(source, "init", "--quiet")
    for name in ("core.fsmonitor", "diff.external", "core.hooksPath", "core.pager", "core.editor"):
        git(source, "config", name, f"touch {canary}")
    (source / ".git/hooks").mkdir(exist_ok=True)
    (source / ".gitattributes").write_text("* diff=evil filter=evil\n")
    for path in ("", "/code", "/diff", "/diff?stat=yes", "/archive"):
        assert anna.get(f"/jobs/{number}{path}").status_code == 200
    again = anna.submit(snapshot=None, reruns=number)
    prepare(head, again)
    assert anna.job(again)["state"] == "waiting"
    assert not canary.exists()


@pytest.mark.threat("S32")
def test_a_tree_bomb_is_refused_at_the_limit(head: Head, anna: Person, project: Project) -> None:
    """Eleven objects that stand for a billion files."""
    blob = write(project, "blob", b"boom")
    objects = [blob, a_tree(project, *(("100644", f"f{i}".encode(), blob) for i in range(10)))]
    for _ in range(9):
        objects.append(a_tree(project, *(("40000", f"d{i}".encode(), objects[-1]) for i in range(10))))
    record = run(head, anna, project, objects[-1], objects)
    assert "the tree has more than 1000 files" in record["reason"]
    assert not head.data.attempt(record["number"], 1).exists()
    small = project.write("a", "x").parent
    assert small
    tree = project.tree()
    assert run(head, anna, project, tree, project.objects(tree))["state"] == "waiting"  # the next one goes


def test_a_zip_bomb_in_a_pack_is_refused_without_using_memory(
    head: Head, anna: Person, project: Project
) -> None:
    huge = project.path / "huge"
    with huge.open("wb") as file:
        file.truncate(128 << 20)
    tree = project.tree()
    body = project.pack_of(project.objects(tree))
    assert len(body) < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    record = run(head, anna, project, tree, project.objects(tree))
    assert "the tree has more than 0.01 GiB" in record["reason"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_objects_of_the_wrong_type_are_refused(head: Head, anna: Person, project: Project) -> None:
    project.commit(a="x")
    blob = git(project.path, "rev-parse", "HEAD:a").decode().strip()
    for fields in ({"tree": blob}, {"tree": project.head()}, {"commit": project.tree()}):
        snapshot = a_snapshot(**{"tree": project.tree(), "pack": anna.upload(project.pack()), **fields})
        number = anna.submit(snapshot=snapshot)
        prepare(head, number)
        assert anna.job(number)["outcome"] == "failed", fields
