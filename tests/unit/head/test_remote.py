"""Remotes as values: equivalent URLs, and URLs that git must not get."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pit_protocol.problem import Problem
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.remote import HOST, parse

SAME = [
    "https://git.example.org/lab/model.git",
    "https://git.example.org/lab/model",
    "https://git.example.org/lab/model/",
    "https://GIT.example.org:443/lab/model.git/",
    "http://git.example.org/lab/model",
    "ssh://git@git.example.org/lab/model.git",
    "ssh://git.example.org:22/lab/model",
    "git@git.example.org:lab/model.git",
    "git.example.org:/lab/model",
]


def test_all_forms_of_one_remote_have_one_key() -> None:
    assert len({parse(text).key for text in SAME}) == 1


def test_different_remotes_have_different_keys() -> None:
    others = [
        "https://git.example.org/lab/Model",
        "https://git.example.org/lab/model2",
        "https://git.example.org:8443/lab/model",
        "https://example.org/lab/model",
        "ssh://git@git.example.org:2222/lab/model",
        "/lab/model",
        "file:///lab/models",
    ]
    assert len({parse(text).key for text in [SAME[0], *others]}) == len(others) + 1


def test_a_path_and_its_file_url_are_one_remote() -> None:
    assert parse("/srv/git/x.git").key == parse("file:///srv/git/x").key
    assert parse("file:///srv/a%20b").path == "/srv/a b"


def test_credentials_are_for_a_host_and_its_port_unless_default() -> None:
    places = {
        "https://host/x": "host",
        "git@host:x": "host",
        "https://host:8443/x": "host:8443",
        "ssh://host:2222/x": "host:2222",
        "http://host/x": "host:80",  # credentials for a host are not sent in plain text
    }
    assert {text: parse(text).place for text in places} == places


@pytest.mark.parametrize(
    "text",
    [
        "",
        "--upload-pack=touch /tmp/p;",
        "-u./x",
        "ext::sh -c id",
        "fd::17",
        "ssh://-oProxyCommand=x/y",
        "ssh://git@-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x@host/y",
        "ssh://host/-oProxyCommand=x",
        "host:-oProxyCommand=x",
        "https://[::1/x",
        "https://a@b@c/x",
        "https://host\\@evil/x",
        "https://host#@evil/x",
        "https://h%6fst/x",
        "https://ho st/x",
        "https:///x",
        "https://host:port/x",
        "https://host/x\n--upload-pack=x",
        "https://host/\x1b[2J",
        "https://" + "x" * 2000,
    ],
)
def test_urls_that_git_could_misread_are_refused(text: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(text)
    assert caught.value.code in ("bad_remote", "secret_in_remote")


def test_the_repr_of_a_credential_hides_its_secret() -> None:
    assert "S3CRET" not in repr(Credential("S3CRET"))
    assert Credential("anna:S3CRET").login == ("anna", "S3CRET")
    assert Credential("S3CRET").login == ("oauth2", "S3CRET")


def test_a_credential_suits_matching_protocols_only() -> None:
    key, token = Credential("-----BEGIN OPENSSH PRIVATE KEY-----\n"), Credential("t")
    assert [key.suits(name) for name in ("ssh", "https", "file", "git")] == [True, False, False, False]
    assert [token.suits(name) for name in ("ssh", "https", "file", "git")] == [False, True, False, False]


@settings(max_examples=500, deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.from_regex(r"[a-z+]{0,8}:{0,2}/{0,2}[-a-z@:.\[\]#?%\\0-9]{0,20}/?[-a-z:/.]{0,20}", fullmatch=True),
    )
)
@example("https://[::1]:1/x")
@example("a::b")
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        remote = parse(text)
    except Problem as problem:
        assert problem.status == 422
        return
    assert not text.startswith("-")
    assert not remote.host.startswith("-")
    assert remote.protocol == "file" or HOST.fullmatch(remote.host)
    assert len(remote.key) == 32
    assert remote.place
