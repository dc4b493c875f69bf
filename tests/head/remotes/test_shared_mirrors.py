"""URL forms of one remote, with real servers: public objects serve all forms, private ones their user."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.settings import Settings
from tests.support.clusters.head import ONE_DATABASE, Person, a_submission, prepare
from tests.support.servers.git import GitServer, OnePort, SshServer
from tests.support.snapshots import Project, a_project, git, listing

TOKEN = "S3CRET-token-0815"


@dataclass
class Both:
    """One remote at one host and port, by http and by ssh."""

    web: GitServer
    ssh: SshServer
    port: OnePort
    path: Path

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.port.port}"

    @property
    def http_form(self) -> str:
        return f"http://{self.place}{self.path}"

    @property
    def ssh_form(self) -> str:
        return f"ssh://{os.environ.get('USER') or 'root'}@{self.place}{self.path}"

    def asked(self) -> tuple[int, int]:
        """The number of connections by http and by ssh."""
        return len(self.web.seen), self.port.by_ssh


pytestmark = [ONE_DATABASE, pytest.mark.usefixtures("node")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, git_protocols="http,ssh", git_local_hosts="127.0.0.1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(**{".compute": "echo\n", "a.txt": "one\n"})
    git(project.remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    return project


@pytest.fixture
def both(project: Project, tmp_path: Path) -> Iterator[Both]:
    with GitServer(Path("/")) as web, SshServer(tmp_path / "ssh") as ssh, OnePort(web, ssh) as port:
        yield Both(web, ssh, port, project.remote)


@pytest.fixture
def berta(a_user: Callable[..., Person]) -> Person:
    return a_user("berta")


def offer(person: Person, project: Project, remote: str) -> dict[str, Any]:
    body = {"tree": project.tree(), "history": [project.head()], "base": project.head(), "remote": remote}
    return dict(person.ok(person.post("/snapshots/offer", json=body)))


def lacked(person: Person, project: Project, remote: str) -> list[str]:
    asked = {"objects": project.objects(project.tree()), "remote": remote}
    return list(person.ok(person.post("/snapshots/missing", json=asked))["objects"])


def run(head: Head, person: Person, project: Project, remote: str) -> dict[str, Any]:
    number = person.submit(command=None, snapshot=project.snapshot(person, remote=remote))
    prepare(head, number)
    return person.job(number)


def give(person: Person, both: Both, secret: str) -> None:
    person.ok(person.call("PATCH", "/users/me", json={"set": {f"git.{both.place}": secret}}))


def test_objects_fetched_without_credentials_serve_the_ssh_form_for_everyone(
    head: Head, anna: Person, berta: Person, project: Project, both: Both
) -> None:
    assert run(head, anna, project, both.http_form)["state"] == "waiting"
    fetched = both.asked()
    assert fetched[0] > 0 and fetched[1] == 0
    # berta has no key, so sshd would refuse her.
    assert offer(berta, project, both.ssh_form) == {"complete": False, "base": project.head(), "why": ""}
    assert lacked(berta, project, both.ssh_form) == []
    record = run(head, berta, project, both.ssh_form)
    assert record["state"] == "waiting", record["reason"]
    assert listing(head.data.attempt(record["number"], 1) / "src") == listing(project.path)
    assert both.asked() == fetched
    assert len(list(head.data.mirrors().glob("*.git"))) == 1


@pytest.mark.parametrize("by", ["http", "ssh"])
@pytest.mark.threat("S34")
def test_objects_fetched_with_credentials_serve_nobody_else(
    head: Head, anna: Person, berta: Person, project: Project, both: Both, by: str
) -> None:
    both.web.login = ("oauth2", TOKEN)
    mine, other = (both.http_form, both.ssh_form) if by == "http" else (both.ssh_form, both.http_form)
    give(anna, both, TOKEN if by == "http" else both.ssh.key)
    assert run(head, anna, project, mine)["state"] == "waiting"
    assert list(head.data.mirrors().glob("*.git")) == []
    for remote in (mine, other):
        answer = offer(berta, project, remote)
        assert (answer["complete"], answer["base"]) == (False, None)
        assert "does not answer the head" in answer["why"]
        assert lacked(berta, project, remote) == project.objects(project.tree())
        record = run(head, berta, project, remote)
        assert (record["outcome"], "the head cannot fetch from" in record["reason"]) == ("failed", True)
    snapshot = project.snapshot(berta, base=None, pack=None, remote=other)
    assert berta.post("/jobs", json=a_submission(snapshot=snapshot)).json["code"] == "no_objects"


@pytest.mark.parametrize("by", ["http", "ssh"])
def test_objects_fetched_with_credentials_serve_other_forms_for_the_same_user(
    head: Head, anna: Person, project: Project, both: Both, by: str
) -> None:
    both.web.login = ("oauth2", TOKEN)
    mine, other = (both.http_form, both.ssh_form) if by == "http" else (both.ssh_form, both.http_form)
    give(anna, both, TOKEN if by == "http" else both.ssh.key)
    assert run(head, anna, project, mine)["state"] == "waiting"
    fetched = both.asked()
    project.write("a.txt", "two\n")
    assert offer(anna, project, other)["base"] == project.head()
    tree = [project.tree()]
    pack = anna.upload(project.pack_of([*tree, *lacked(anna, project, other)]))
    number = anna.submit(command=None, snapshot=project.snapshot(anna, remote=other, pack=pack))
    prepare(head, number)
    assert anna.job(number)["state"] == "waiting", anna.job(number)["reason"]
    assert both.asked() == fetched
