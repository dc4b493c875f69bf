"""Remotes that the head must not fetch from."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pit_server.app import create_app
from pit_server.context import Head
from pit_server.settings import Settings
from pit_server.store.remotes.remote import parse
from tests.support.clusters.head import ONE_DATABASE, Person, a_snapshot, a_submission

HASH = "c0ffee" + "0" * 34

pytestmark = [ONE_DATABASE, pytest.mark.usefixtures("node")]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, git_protocols="https,ssh")


def answer_to(person: Person, remote: str) -> Any:
    """The answer to a submission whose base has to be fetched from there."""
    return person.post("/jobs", json=a_submission(snapshot=a_snapshot(tree=HASH, base=HASH, remote=remote)))


def offer_to(person: Person, remote: str) -> Any:
    return person.post("/snapshots/offer", json={"tree": HASH, "remote": remote, "base": HASH})


@pytest.mark.threat("S20", "S22", "S23")
def test_remotes_that_are_options_or_programs_are_refused(anna: Person) -> None:
    remotes = [
        "--upload-pack=touch /tmp/p;",
        "-u./x",
        "ext::sh -c id",
        "fd::17",
        "file:///etc",
        "/srv/pit",
        "../other",
        "ftp://host/x",
        "gopher://host/x",
        "http://host/x",
        "git://host/x",
        "ssh://-oProxyCommand=x/y",
        "https://host/x\n--upload-pack=x",
        "https://host/\x1b[2J",
        "https://" + "x" * 2000,
        "",
    ]
    odd = {
        remote: answer.json for remote in remotes if (answer := answer_to(anna, remote)).status_code != 422
    }
    assert odd == {}


@pytest.mark.parametrize("protocols", ["https,ssh", "https,http,ssh,git,file"])
@pytest.mark.threat("S20", "S22")
def test_hostile_remotes_run_no_program(
    head: Head, anna: Person, settings: Settings, tmp_path: Path, protocols: str
) -> None:
    """Whatever protocols an admin allows."""
    app = create_app(replace(head, settings=replace(settings, git_protocols=protocols)))
    person, canary = Person(app, anna.name, anna.token), tmp_path / "canary"
    script = tmp_path / "x"
    script.write_text(f"#!/bin/sh\ntouch {canary}\n")
    script.chmod(0o755)
    for remote in (
        f"--upload-pack=touch {canary};",
        f"-u{script}",
        f"ext::sh -c touch% {canary}",
        f"ssh://-oProxyCommand={script}/y",
        f"ssh://git@-oProxyCommand={script}/y",
        f"-oProxyCommand={script}:y",
    ):
        assert answer_to(person, remote).json["code"] == "bad_remote", remote
        assert offer_to(person, remote).json["code"] == "bad_remote", remote
        asked = {"objects": [HASH], "remote": remote}
        assert person.post("/snapshots/missing", json=asked).json["code"] == "bad_remote", remote
    assert not canary.exists()


@pytest.mark.threat("S23")
def test_a_host_that_is_an_option_is_refused_after_a_user_name_too(anna: Person) -> None:
    assert answer_to(anna, "ssh://git@-oProxyCommand=x/y").status_code == 422


def test_a_url_that_cannot_be_read_is_refused(anna: Person) -> None:
    for remote in ("https://[::1/x", "https://[x]/y", "https://host]/x"):
        assert answer_to(anna, remote).status_code == 422, remote


def test_remotes_of_the_two_protocols_are_accepted() -> None:
    found = {
        text: (remote.protocol, remote.host, remote.number)
        for text in (
            "https://git.example.org/lab/model.git",
            "https://git.example.org:8443/x",
            "ssh://git@git.example.org/x",
            "ssh://git@git.example.org:2222/~lab/x",
            "git@git.example.org:lab/model.git",
            "host:path",
        )
        if (remote := parse(text))
    }
    assert list(found.values()) == [
        ("https", "git.example.org", 443),
        ("https", "git.example.org", 8443),
        ("ssh", "git.example.org", 22),
        ("ssh", "git.example.org", 2222),
        ("ssh", "git.example.org", 22),
        ("ssh", "host", 22),
    ]


def test_an_unusable_remote_is_reported_and_the_client_sends_everything(anna: Person) -> None:
    for remote, why in (
        ("git@nosuchhost.invalid:x.git", "the head cannot resolve nosuchhost.invalid"),
        ("/srv/git/x.git", "the head does not fetch over file"),
        ("ftp://host/x", "the head does not fetch over ftp"),
        ("https://127.0.0.1:1/x.git", "the head does not connect to 127.0.0.1, which is 127.0.0.1"),
    ):
        answer = offer_to(anna, remote)
        assert answer.json == {"complete": False, "base": None, "why": why}


def test_hostile_remotes_are_refused_in_offers_too(anna: Person) -> None:
    for remote in (
        "--upload-pack=touch /tmp/p;",
        "-u./x",
        "ext::sh -c id",
        "fd::17",
        "ssh://-oProxyCommand=x/y",
    ):
        for path, body in (("offer", {"tree": HASH, "base": HASH}), ("missing", {"objects": [HASH]})):
            answer = anna.post(f"/snapshots/{path}", json={**body, "remote": remote})
            assert (answer.status_code, answer.json["code"]) == (422, "bad_remote"), remote


@pytest.mark.threat("S21")
def test_hostile_hashes_are_refused_in_offers_too(anna: Person) -> None:
    for text in ("--upload-pack=x", "HEAD", "refs/heads/main", "@{-1}", "a" * 39, "a" * 41, "a" * 40 + "\n"):
        for body in ({"tree": text}, {"tree": HASH, "history": [text]}, {"tree": HASH, "base": text}):
            assert anna.post("/snapshots/offer", json=body).json["code"] == "bad_hash", text
        assert anna.post("/snapshots/missing", json={"objects": [text]}).json["code"] == "bad_hash", text


@pytest.mark.parametrize(
    "remote",
    [
        "https://user:S3CRET@host/r",
        "https://S3CRET@host/r",
        "https://host/r?private_token=S3CRET",
        "HTTPS://user:S3CRET@host/r",
        "ssh://git:S3CRET@host/r",
    ],
)
@pytest.mark.threat("S26")
def test_a_secret_in_the_url_is_refused_and_leaks_nowhere(
    head: Head, anna: Person, remote: str, caplog: pytest.LogCaptureFixture
) -> None:
    for answer in (answer_to(anna, remote), offer_to(anna, remote)):
        assert (answer.status_code, answer.json["code"]) == (422, "secret_in_remote")
        assert answer.json["hint"]
        assert "S3CRET" not in answer.text + caplog.text
    assert b"S3CRET" not in b"".join(path.read_bytes() for path in head.settings.home.glob("pit.db*"))


def test_an_unfetchable_protocol_names_the_allowed_ones(anna: Person) -> None:
    answer = answer_to(anna, "/srv/git/x.git")
    assert answer.json["code"] == "remote_not_fetchable"
    assert answer.json["message"] == "the head does not fetch over file"
    assert answer.json["hint"] == "it fetches over https, ssh"


def test_a_remote_that_is_not_needed_may_be_anywhere(anna: Person) -> None:
    number = anna.submit(snapshot=a_snapshot(remote="/home/anna/project"))
    assert anna.job(number)["snapshot"]["remote"] == "/home/anna/project"
