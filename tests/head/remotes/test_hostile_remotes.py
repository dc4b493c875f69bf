"""Malicious servers: real ones on loopback, and sentinels that must receive nothing."""

import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.settings import Settings
from pit_server.store.remotes.reach import reach
from pit_server.store.remotes.remote import parse
from tests.support.clusters.head import ONE_DATABASE, Person, prepare
from tests.support.servers.git import GitServer, SshServer
from tests.support.snapshots import Project, a_project, git, listing

pytestmark = [ONE_DATABASE, pytest.mark.usefixtures("node")]


@pytest.fixture
def allowed() -> str:
    return ""


@pytest.fixture
def settings(settings: Settings, allowed: str) -> Settings:
    return replace(settings, git_protocols="https,http,ssh,file", git_local_hosts=allowed)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(**{".compute": "echo\n", "a.txt": "one\n"})
    git(project.remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    return project


@pytest.fixture
def server(project: Project) -> Iterator[GitServer]:
    with GitServer(project.remote.parent) as server:
        yield server


def run(head: Head, person: Person, project: Project, remote: str) -> dict[str, Any]:
    number = person.submit(snapshot=project.snapshot(person, remote=remote))
    prepare(head, number)
    return person.job(number)


def offer(person: Person, project: Project, remote: str) -> dict[str, Any]:
    body = {"tree": project.tree(), "base": project.head(), "remote": remote}
    return dict(person.ok(person.post("/snapshots/offer", json=body)))


def own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]", "own"],
)
@pytest.mark.threat("S24")
def test_the_heads_own_machine_is_not_contacted(
    head: Head, anna: Person, project: Project, server: GitServer, host: str
) -> None:
    remote = f"http://{own_address() if host == 'own' else host}:{server.port}/remote.git"
    answer = offer(anna, project, remote)
    assert answer["base"] is None
    assert answer["why"].startswith("the head does not connect to")
    assert "does not connect to" in run(head, anna, project, remote)["reason"]
    assert server.seen == []


@pytest.mark.parametrize(
    "remote", ["http://169.254.169.254/latest", "http://[::1]:1/x", "https://[fe80::1]/x"]
)
@pytest.mark.threat("S24")
def test_internal_addresses_are_not_contacted(anna: Person, project: Project, remote: str) -> None:
    assert offer(anna, project, remote)["why"].startswith(
        ("the head does not connect to", "the head cannot resolve")
    )


class TestWithHostsThatAreAllowed:
    @pytest.fixture
    def allowed(self) -> str:
        return "127.0.0.1,git.test"

    @pytest.mark.threat("S24")
    def test_git_uses_the_checked_address_without_a_lookup(
        self,
        head: Head,
        anna: Person,
        project: Project,
        server: GitServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The name cannot be resolved here at all, so a second lookup would fail."""
        real = socket.getaddrinfo

        def look_up(host: str, *rest: Any, **options: Any) -> Any:
            return real("127.0.0.1" if host == "git.test" else host, *rest, **options)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        record = run(head, anna, project, f"http://git.test:{server.port}/remote.git")
        assert record["state"] == "waiting", record["reason"]
        assert listing(head.data.attempt(record["number"], 1) / "src") == listing(project.path)

    def test_ssh_uses_the_checked_address(
        self,
        head: Head,
        anna: Person,
        project: Project,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """As above: ssh itself cannot resolve the name."""
        real = socket.getaddrinfo

        def look_up(host: str, *rest: Any, **options: Any) -> Any:
            return real("127.0.0.1" if host == "git.test" else host, *rest, **options)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        with SshServer(tmp_path / "ssh") as server:
            remote = server.url(project.remote).replace("127.0.0.1", "git.test")
            anna.ok(
                anna.call("PATCH", "/users/me", json={"set": {f"git.git.test:{server.port}": server.key}})
            )
            record = run(head, anna, project, remote)
        assert record["state"] == "waiting", record["reason"]
        assert listing(head.data.attempt(record["number"], 1) / "src") == listing(project.path)

    def test_a_git_daemon_is_contacted_at_the_checked_address(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = [(0, 0, 0, "", ("127.0.0.1", 9418))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        wanted = replace(settings, git_protocols="git")
        with reach(parse("git://git.test/lab/x.git"), wanted) as access:
            assert "url.git://127.0.0.1:9418.insteadOf=git://git.test" in access.config

    @pytest.mark.threat("S25")
    def test_a_redirect_is_not_followed(
        self, head: Head, anna: Person, project: Project, server: GitServer, tmp_path: Path
    ) -> None:
        with GitServer(project.remote.parent) as sentinel:
            server.redirect = f"http://{sentinel.place}"
            assert offer(anna, project, server.url())["base"] is None
            assert run(head, anna, project, server.url())["outcome"] == "failed"
            assert sentinel.seen == []

    @pytest.mark.threat("F39")
    def test_a_truncated_pack_leaves_nothing_and_the_next_fetch_works(
        self, head: Head, anna: Person, project: Project, server: GitServer
    ) -> None:
        project.commit(noise=os.urandom(100_000))
        server.cut = 50_000
        record = run(head, anna, project, server.url())
        assert f"the head cannot fetch from {server.url()}: " in record["reason"]
        assert [path for path in head.data.mirrors().rglob("*pack*") if path.is_file()] == []
        server.cut = 0
        assert run(head, anna, project, server.url())["state"] == "waiting"

    @pytest.mark.threat("F39")
    def test_a_remote_without_the_commit_fails_the_job_with_gits_message(
        self, head: Head, anna: Person, project: Project, server: GitServer
    ) -> None:
        number = anna.submit(snapshot=project.snapshot(anna, remote=server.url()))
        project.remote.rename(project.remote.with_name("gone"))
        prepare(head, number)
        record = anna.job(number)
        assert f"the head cannot fetch from {server.url()}: " in record["reason"]
        assert "not found" in record["reason"]
        assert not head.data.attempt(number, 1).exists()


class TestShortTimeouts:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, git_local_hosts="*", prepare_timeout_s=2.0)

    @pytest.mark.parametrize("way", ["silent", "dribbles"])
    @pytest.mark.threat("S32", "F39")
    def test_a_slow_server_is_cut_off_at_the_time_limit(
        self, head: Head, anna: Person, project: Project, server: GitServer, way: str
    ) -> None:
        setattr(server, way, True)
        began = time.monotonic()
        record = run(head, anna, project, server.url())
        assert "took longer than 2 s" in record["reason"]
        assert time.monotonic() - began < 100
        assert [path for path in head.data.mirrors().rglob("*pack*") if path.is_file()] == []
        number = anna.submit(snapshot=project.snapshot(anna, whole=True, remote=None))
        prepare(head, number)
        assert anna.job(number)["state"] == "waiting", anna.job(number)["reason"]


class TestWithLittleRoom:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, git_local_hosts="*", max_tree_gib=0.001)

    @pytest.mark.threat("S32")
    def test_a_pack_above_the_limit_is_aborted(
        self, head: Head, anna: Person, project: Project, server: GitServer
    ) -> None:
        project.commit(**{"noise": os.urandom(3 << 20)})
        record = run(head, anna, project, server.url())
        assert record["outcome"] == "failed"
        assert "more than 0.001 GiB" in record["reason"]
        used = sum(path.stat().st_size for path in head.data.mirrors().rglob("*") if path.is_file())
        assert used < 2 << 20
