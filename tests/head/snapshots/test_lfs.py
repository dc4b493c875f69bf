"""Git LFS: a job gets the content, from the cache or the remote, never a pointer."""

import hashlib
import io
import os
import socket
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.settings import Settings
from pit_server.store.git import lfs_pointers
from pit_server.store.remotes import lfs_client
from tests.support.clusters.head import ONE_DATABASE, Person, prepare
from tests.support.clusters.local import eventually
from tests.support.requirements import need_programs
from tests.support.servers.git import GitServer, SshServer
from tests.support.snapshots import Project, a_project, git

CONTENT = b"large\0" * 5000
OID = hashlib.sha256(CONTENT).hexdigest()
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize {len(CONTENT)}\n"

pytestmark = [ONE_DATABASE, pytest.mark.usefixtures("node")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, git_protocols="https,http,ssh,file", git_local_hosts="127.0.0.1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(
        **{
            ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
            "sub__model.bin": POINTER,
            "plain.txt": POINTER,  # not given to Git LFS, and so no pointer
            "odd.bin": "no pointer\n",
        }
    )
    (project.path / "sub/model.bin").chmod(0o755)
    project.commit()
    git(project.remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    return project


@pytest.fixture
def server(project: Project) -> Iterator[GitServer]:
    with GitServer(project.remote.parent) as server:
        server.put(CONTENT)
        yield server


def run(head: Head, person: Person, project: Project, remote: str, **fields: Any) -> dict[str, Any]:
    number = person.submit(snapshot=project.snapshot(person, remote=remote, **fields))
    prepare(head, number)
    return person.job(number)


def source(head: Head, record: dict[str, Any]) -> Path:
    assert record["state"] == "waiting", record["reason"]
    return head.data.attempt(record["number"], 1) / "src"


def missing(person: Person, remote: str | None, *large: tuple[str, int]) -> list[str]:
    asked = {"large": [{"oid": oid, "size": size} for oid, size in large], "remote": remote}
    return [file["oid"] for file in person.ok(person.post("/snapshots/missing", json=asked))["large"]]


def test_content_comes_from_the_remote_and_then_from_the_cache(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    tree = source(head, run(head, anna, project, server.url()))
    assert (tree / "sub/model.bin").read_bytes() == CONTENT
    assert os.access(tree / "sub/model.bin", os.X_OK)
    assert (tree / "plain.txt").read_text() == POINTER
    assert (tree / "odd.bin").read_text() == "no pointer\n"
    asked = len(server.seen)
    tree = source(head, run(head, anna, project, server.url()))
    assert (tree / "sub/model.bin").read_bytes() == CONTENT
    assert len(server.seen) == asked


def test_downloaded_code_contains_the_large_files(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    record = run(head, anna, project, server.url())
    body = anna.get(f"/jobs/{record['number']}/code").data
    with tarfile.open(fileobj=io.BytesIO(body)) as tar:
        file = tar.extractfile("sub/model.bin")
        assert file is not None
        assert file.read() == CONTENT
        assert tar.getmember("sub/model.bin").mode == 0o755


def test_a_client_learns_which_large_files_to_send(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    other = ("0" * 64, 10)
    assert missing(anna, server.url(), (OID, len(CONTENT)), other) == ["0" * 64]
    assert missing(anna, None, (OID, len(CONTENT))) == [OID]
    assert missing(anna, "https://nosuchhost.invalid/x", (OID, len(CONTENT))) == [OID]
    run(head, anna, project, server.url())
    assert missing(anna, None, (OID, len(CONTENT))) == []


def test_a_missing_large_file_is_named(head: Head, anna: Person, project: Project, server: GitServer) -> None:
    server.large.clear()
    record = run(head, anna, project, server.url())
    assert record["outcome"] == "failed"
    assert f"large file {OID[:12]} is neither here nor at {server.url()}" in record["reason"]


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x", b"x" * len(CONTENT)])
def test_content_with_a_wrong_hash_is_refused(
    head: Head, anna: Person, project: Project, server: GitServer, content: bytes
) -> None:
    server.large[OID] = content
    record = run(head, anna, project, server.url())
    assert f"the content of large file {OID[:12]} does not match its hash" in record["reason"]
    assert [path for path in head.data.large(None).rglob("*") if path.is_file()] == []


def test_corrupt_cached_content_is_detected(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    run(head, anna, project, server.url())
    cached = next(head.data.large(None).rglob(OID))
    cached.write_bytes(b"x" * len(CONTENT))
    assert "is damaged" in run(head, anna, project, server.url())["reason"]


def test_large_files_are_copied_from_a_remote_on_the_local_disk(
    head: Head, anna: Person, project: Project
) -> None:
    place = project.remote / "lfs/objects" / OID[:2] / OID[2:4] / OID
    place.parent.mkdir(parents=True)
    place.write_bytes(CONTENT)
    assert missing(anna, str(project.remote), (OID, len(CONTENT))) == []
    tree = source(head, run(head, anna, project, f"file://{project.remote}"))
    assert (tree / "sub/model.bin").read_bytes() == CONTENT


def test_what_git_lfs_itself_pushed_is_understood(head: Head, anna: Person, tmp_path: Path) -> None:
    need_programs("git-lfs")
    project = a_project(tmp_path / "real")
    git(project.path, "lfs", "install", "--local")
    git(project.path, "lfs", "track", "*.bin")
    project.commit(**{"model.bin": CONTENT})
    tree = source(head, run(head, anna, project, f"file://{project.remote}"))
    assert (tree / "model.bin").read_bytes() == CONTENT


def test_large_files_fetched_with_credentials_serve_nobody_else(
    head: Head, anna: Person, a_user: Callable[..., Person], project: Project, server: GitServer
) -> None:
    server.login = ("oauth2", "t0ken")
    anna.call("PATCH", "/users/me", json={"set": {f"git.{server.place}": "t0ken"}})
    tree = source(head, run(head, anna, project, server.url()))
    assert (tree / "sub/model.bin").read_bytes() == CONTENT
    berta = a_user("berta")
    assert missing(berta, server.url(), (OID, len(CONTENT))) == [OID]
    assert missing(anna, None, (OID, len(CONTENT))) == []
    assert not head.data.large(None).exists()


def test_an_ssh_remote_names_its_lfs_endpoint(
    head: Head, anna: Person, project: Project, server: GitServer, tmp_path: Path
) -> None:
    with SshServer(tmp_path / "ssh") as ssh:
        ssh.answer_authenticate(f"http://{server.place}/remote.git/info/lfs")
        anna.call("PATCH", "/users/me", json={"set": {f"git.127.0.0.1:{ssh.port}": ssh.key}})
        tree = source(head, run(head, anna, project, ssh.url(project.remote)))
        assert (tree / "sub/model.bin").read_bytes() == CONTENT


@pytest.mark.threat("S35")
def test_a_hostile_lfsconfig_is_not_read_and_no_filter_runs(
    head: Head, anna: Person, project: Project, server: GitServer, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    with GitServer(tmp_path) as sentinel:
        project.commit(
            **{
                ".lfsconfig": f"[lfs]\n\turl = {sentinel.url('x')}\n\tfetchurl = {sentinel.url('y')}\n",
                ".gitconfig": f'[filter "evil"]\n\tsmudge = touch {canary}\n\tprocess = touch {canary}\n',
                "deep__.gitattributes": "*.x filter=evil\n",
                "deep__a.x": "a",
            }
        )
        tree = source(head, run(head, anna, project, server.url()))
        assert (tree / "sub/model.bin").read_bytes() == CONTENT
        assert sentinel.seen == []
    assert not canary.exists()


@pytest.mark.parametrize("way", ["href", "redirect"])
@pytest.mark.threat("S25")
def test_a_redirect_to_a_refused_address_is_not_followed(
    head: Head, anna: Person, project: Project, server: GitServer, tmp_path: Path, way: str
) -> None:
    with GitServer(tmp_path, host="127.0.0.2") as sentinel, GitServer(tmp_path) as middle:
        middle.redirect = f"http://{sentinel.place}"
        server.href = f"http://{(middle if way == 'redirect' else sentinel).place}/large"
        record = run(head, anna, project, server.url())
        assert record["reason"].startswith("the head does not connect to 127.0.0.2, which is 127.0.0.2")
        assert sentinel.seen == []


@pytest.mark.threat("S24")
def test_dns_rebinding_has_no_effect(
    head: Head,
    anna: Person,
    project: Project,
    server: GitServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The head connects to the address it has checked, and resolves the name only once."""
    real, good = socket.getaddrinfo, iter(["127.0.0.1", "127.0.0.1"])  # for git, and for the large files

    def look_up(host: str, *rest: Any, **options: Any) -> Any:
        return real(next(good, "127.0.0.2") if host == "git.test" else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with GitServer(tmp_path, host="127.0.0.2", port=server.port) as sentinel:
        tree = source(head, run(head, anna, project, f"http://git.test:{server.port}/remote.git"))
        assert (tree / "sub/model.bin").read_bytes() == CONTENT
        assert (sentinel.seen, next(good, None)) == ([], None)


def test_a_redirect_to_an_allowed_address_is_followed_without_the_login(
    head: Head, anna: Person, project: Project, server: GitServer, tmp_path: Path
) -> None:
    with GitServer(tmp_path) as storage, GitServer(tmp_path) as middle:
        storage.large = server.large
        middle.redirect = f"http://{storage.place}"
        server.href = f"http://{middle.place}/large"
        tree = source(head, run(head, anna, project, server.url()))
        assert (tree / "sub/model.bin").read_bytes() == CONTENT


def test_large_files_beyond_the_limit_are_refused_before_they_are_fetched(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    project.commit(**{"huge.bin": POINTER.replace(f"size {len(CONTENT)}", f"size {2**50}")})
    record = run(head, anna, project, server.url())
    assert "large files have more than 100 GiB" in record["reason"]
    assert not [line for line in server.seen if "/lfs/" in line]


def test_only_the_canonical_form_is_a_pointer() -> None:
    assert lfs_pointers.parse(POINTER.encode()) == lfs_pointers.Pointer(OID, len(CONTENT))
    for text in (
        "",
        POINTER + "x",
        POINTER.replace("sha256:", "md5:"),
        POINTER.replace("size ", "size -"),
        POINTER.replace(OID, "../../x"),
        POINTER.replace("\n", "\r\n"),
    ):
        assert lfs_pointers.parse(text.encode()) is None


@pytest.fixture
def slow(project: Project, server: GitServer) -> Iterator[GitServer]:
    """A server that has the large files, and sends a byte now and then."""
    with GitServer(project.remote.parent, dribbles=True) as slow:
        server.href = f"http://{slow.place}/large"
        yield slow


def test_a_slow_download_ends_with_the_time_of_the_preparation(
    head: Head, anna: Person, project: Project, server: GitServer, slow: GitServer
) -> None:
    hurried = replace(head, settings=replace(head.settings, prepare_timeout_s=2.0))
    record = run(hurried, anna, project, server.url())
    assert slow.seen
    assert "the preparation took longer than 2 s; an admin can raise" in record["reason"]
    left = [
        *head.data.large(None).rglob("*.part"),
        *head.data.attempt(record["number"], 1).parent.glob("*.part"),
    ]
    assert left == []


def test_a_download_ends_when_its_job_is_stopped(
    head: Head,
    anna: Person,
    project: Project,
    server: GitServer,
    slow: GitServer,
    in_thread: Callable[..., Callable[[], None]],
) -> None:
    number = anna.submit(snapshot=project.snapshot(anna, remote=server.url()))
    done = in_thread(lambda: prepare(head, number))
    eventually(lambda: slow.seen)
    anna.ok(anna.stop(number))
    done()
    assert anna.job(number)["outcome"] == "stopped"


def test_a_download_below_the_slowest_pace_is_given_up(
    head: Head,
    anna: Person,
    project: Project,
    server: GitServer,
    slow: GitServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lfs_client, "SLOW_S", 0.2)
    record = run(head, anna, project, server.url())
    assert "the server sends less than 1,000 bytes per second" in record["reason"]
