"""The types of the head's answers: what an older client, a log and the stub head rely on."""

import importlib
import pkgutil

import pytest
from msgspec import Struct

from pit_protocol import answers
from pit_protocol.answers.files import FileEntry, PathName
from pit_protocol.answers.jobs import JobEvent
from pit_protocol.answers.nodes import NodeAdded
from pit_protocol.answers.users import IssuedToken, User
from pit_protocol.messages.request_bodies import Login, Registration
from pit_protocol.paths import name_fields
from pit_protocol.problem import Problem
from pit_protocol.wire import decode, encode
from tests.support.stubs.contract import check
from tests.support.stubs.users import a_node, a_user

MODULES = [
    importlib.import_module(f"pit_protocol.answers.{module.name}")
    for module in pkgutil.iter_modules(answers.__path__)
]
KINDS = {
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Struct) and kind.__module__ == module.__name__
}


@pytest.mark.parametrize(
    "kind", sorted(KINDS, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__
)
def test_fields_of_a_newer_head_are_ignored(kind: type[Struct]) -> None:
    assert not kind.__struct_config__.forbid_unknown_fields


def test_fields_that_the_caller_may_not_see_are_left_out() -> None:
    assert encode(User("anna", "Anna A.", [])) == b'{"name":"anna","full_name":"Anna A.","groups":[]}'


def test_an_event_is_named_as_documented() -> None:
    event = JobEvent(1.0, "placed", "waiting", "starting", "head", "", None)
    assert b'"from":"waiting","to":"starting"' in encode(event)


@pytest.mark.parametrize("path", ["loss.txt", "caf\udce9", "", "a b/ü"])
def test_a_path_survives_whatever_its_bytes(path: str) -> None:
    entry = FileEntry(**name_fields(path), kind="file", size=1, mtime=1.5, mode="0644")
    assert decode(FileEntry, encode(entry)).path == path
    assert PathName(**name_fields(path)).path == path


@pytest.mark.parametrize(
    "secret",
    [
        IssuedToken("anna", 7, "pit_7_s3cret", 1.0),
        Login("anna", "s3cret"),
        Registration("anna", "Anna A.", "s3cret", setup_code="s3cret"),
    ],
)
def test_no_repr_shows_a_secret(secret: Struct) -> None:
    assert "s3cret" not in repr(secret)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"weather": "sunny"}, "GET /me 200: not exactly User: weather"),
        ({"admin": "yes"}, "GET /me 200: field 'admin' must be bool, not str"),
    ],
)
def test_a_stub_that_drifts_is_refused(change: dict[str, str], sentence: str) -> None:
    check("GET", "/me", 200, a_user())
    with pytest.raises(Problem, match=sentence):
        check("GET", "/me", 200, {**a_user(), **change})


def test_a_stub_with_a_missing_field_is_refused() -> None:
    added = {"node": a_node(), "join_code": "join_7_code", "expires_at": 1.0}
    check("PUT", "/nodes/n0", 201, added)
    del added["expires_at"]
    with pytest.raises(Problem, match="field 'expires_at' is missing"):
        check("PUT", "/nodes/n0", 201, added)
    assert decode(NodeAdded, encode({**added, "expires_at": 1.0})).node.name == "n0"
