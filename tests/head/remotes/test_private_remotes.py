"""Private remotes: credentials are encrypted, used only for their user and host, and shown to nobody."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pit_server.context import Head
from pit_server.services.users import secrets
from pit_server.settings import Settings
from tests.support.clusters.head import Person, a_submission, prepare
from tests.support.servers.git import GitServer, SshServer
from tests.support.snapshots import Project, a_project, git, listing

TOKEN = "S3CRET-token-0815"

pytestmark = pytest.mark.usefixtures("node")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, git_protocols="https,http,ssh,file", git_local_hosts="127.0.0.1")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = a_project(tmp_path / "project")
    project.commit(**{".compute": "echo\n", "a.txt": "one\n"})
    git(project.remote, "config", "uploadpack.allowAnySHA1InWant", "true")
    return project


@pytest.fixture
def server(project: Project) -> Iterator[GitServer]:
    with GitServer(project.remote.parent, login=("oauth2", TOKEN), secret=TOKEN) as server:
        yield server


def offer(person: Person, project: Project, remote: str) -> dict[str, Any]:
    body = {"tree": project.tree(), "history": [project.head()], "base": project.head(), "remote": remote}
    return dict(person.ok(person.post("/snapshots/offer", json=body)))


def run(head: Head, person: Person, project: Project, remote: str) -> dict[str, Any]:
    number = person.submit(command=None, snapshot=project.snapshot(person, remote=remote))
    prepare(head, number)
    return person.job(number)


def give(person: Person, place: str, secret: str) -> Any:
    return person.call("PATCH", "/users/me", json={"set": {f"git.{place}": secret}})


def test_a_private_remote_is_fetched_from_with_the_user_s_own_token(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    assert "does not answer" in offer(anna, project, server.url())["why"]
    assert anna.ok(give(anna, server.place, TOKEN))["git"] == [server.place]
    assert offer(anna, project, server.url())["base"] == project.head()
    record = run(head, anna, project, server.url())
    assert record["state"] == "waiting", record["reason"]
    assert listing(head.data.attempt(record["number"], 1) / "src") == listing(project.path)
    assert not list(head.data.mirrors().glob("*.git"))  # nothing of it is shared


@pytest.mark.threat("S34")
def test_another_user_cannot_use_a_private_remotes_objects(
    head: Head, anna: Person, a_user: Callable[..., Person], project: Project, server: GitServer
) -> None:
    """Their own credentials decide, whatever is in the first user's store."""
    berta = a_user("berta")
    give(anna, server.place, TOKEN)
    assert run(head, anna, project, server.url())["state"] == "waiting"
    answer = offer(berta, project, server.url())
    assert (answer["complete"], answer["base"]) == (False, None)
    asked = {"objects": project.objects(project.tree()), "remote": server.url()}
    assert berta.post("/snapshots/missing", json=asked).json["objects"] == asked["objects"]
    record = run(head, berta, project, server.url())
    assert record["outcome"] == "failed"
    snapshot = project.snapshot(berta, base=None, pack=None)
    assert berta.post("/jobs", json=a_submission(snapshot=snapshot)).json["code"] == "no_objects"


def test_a_path_into_the_heads_own_files_is_refused(
    head: Head, anna: Person, a_user: Callable[..., Person], project: Project, tmp_path: Path
) -> None:
    """Where paths are allowed as remotes, another user's store is still refused."""
    anna.submit(snapshot=project.snapshot(anna, whole=True, remote=None))
    prepare(head, 1)
    store = head.data.store(1)
    assert store.exists()
    link = tmp_path / "link"
    link.symlink_to(store)
    berta = a_user("berta")
    for remote in (str(store), f"file://{store}", f"{store}/../1.git", str(link), "../1.git", "1.git"):
        answer = offer(berta, project, remote)
        assert (answer["base"], answer["why"]) == (None, f"the head does not fetch from {remote}")
        snapshot = project.snapshot(berta, remote=remote)
        assert (
            berta.post("/jobs", json=a_submission(snapshot=snapshot)).json["code"] == "remote_not_fetchable"
        )


def test_a_token_is_used_for_exactly_its_host_and_port(
    head: Head, anna: Person, project: Project, server: GitServer
) -> None:
    give(anna, "127.0.0.1", TOKEN)
    give(anna, f"localhost:{server.port}", TOKEN)
    assert offer(anna, project, server.url())["base"] is None
    assert run(head, anna, project, server.url())["outcome"] == "failed"


@pytest.mark.threat("S26")
def test_the_token_leaks_nowhere(
    head: Head,
    root: Person,
    anna: Person,
    project: Project,
    server: GitServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither in the database nor in logs, records, errors, command lines or git's own files."""
    answers = [give(anna, server.place, TOKEN).text, anna.get("/me").text, root.get("/users/anna").text]
    record = run(head, anna, project, server.url())
    assert record["state"] == "waiting", record["reason"]
    server.login = ("oauth2", "changed meanwhile")
    project.commit(b="two\n")
    failed = run(head, anna, project, server.url())
    assert failed["outcome"] == "failed"
    answers += [str(anna.log(job["number"])) for job in (record, failed)]
    answers += [str(record), str(failed), root.get("/audit").text, caplog.text]
    assert [text for text in answers if TOKEN in text] == []
    assert server.seen
    assert server.leaks == []
    files = [path for path in head.settings.home.rglob("*") if path.is_file()]
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []
    assert (head.settings.home / secrets.KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_an_empty_value_removes_the_credential(anna: Person, project: Project, server: GitServer) -> None:
    give(anna, server.place, TOKEN)
    assert anna.ok(give(anna, server.place, ""))["git"] == []
    assert offer(anna, project, server.url())["base"] is None


def test_invalid_credentials_are_refused_without_repeating_them(anna: Person) -> None:
    for name, value in (
        ("git.host", "S3CRET with blanks"),
        ("git.host", "-----BEGIN OPENSSH PRIVATE KEY-----\nS3CRET\n-----END OPENSSH PRIVATE KEY-----"),
        ("git.host/path", "S3CRET"),
        ("git.-oProxyCommand=x", "S3CRET"),
        ("git.", "S3CRET"),
        ("git.host", "S3CRET" * 10_000),
    ):
        answer = anna.call("PATCH", "/users/me", json={"set": {name: value}})
        assert answer.status_code == 422, name
        assert "S3CRET" not in answer.text


def test_a_secret_moved_to_another_user_cannot_be_decrypted(
    head: Head, anna: Person, a_user: Callable[..., Person], project: Project, server: GitServer
) -> None:
    a_user("berta")
    give(anna, server.place, TOKEN)
    with head.database.write() as session:
        sealed = session.query(secrets.Secret).one().sealed
        session.add(secrets.Secret(user_id=2, name=f"git.{server.place}", sealed=sealed))
    with head.database.read() as session, pytest.raises(secrets.Problem, match="cannot be decrypted"):
        place = secrets.Remote(server.url(), "http", "127.0.0.1", server.port)
        secrets.get_credential(session, head.settings.home, 2, place)


def test_an_ssh_key_is_used_only_for_its_user(
    head: Head, anna: Person, a_user: Callable[..., Person], project: Project, tmp_path: Path
) -> None:
    with SshServer(tmp_path / "ssh") as server:
        remote = server.url(project.remote)
        berta = a_user("berta")
        assert anna.ok(give(anna, f"127.0.0.1:{server.port}", server.key))["git"]
        assert offer(anna, project, remote)["base"] == project.head()
        record = run(head, anna, project, remote)
        assert record["state"] == "waiting", record["reason"]
        assert listing(head.data.attempt(record["number"], 1) / "src") == listing(project.path)
        assert "does not answer" in offer(berta, project, remote)["why"]
        assert run(head, berta, project, remote)["outcome"] == "failed"


def test_forms_of_one_remote_share_a_mirror_where_no_credentials_are_needed(
    head: Head, anna: Person, a_user: Callable[..., Person], project: Project, server: GitServer
) -> None:
    server.login = None
    assert run(head, anna, project, server.url())["state"] == "waiting"
    berta = a_user("berta")
    asked = list(server.seen)
    answer = offer(berta, project, server.url().removesuffix(".git") + "/")
    assert answer == {"complete": False, "base": project.head(), "why": ""}
    assert server.seen == asked  # the mirror has it
    assert run(head, berta, project, server.url())["state"] == "waiting"
