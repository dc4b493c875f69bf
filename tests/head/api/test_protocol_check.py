"""The head and the versions of those who call it."""

from collections.abc import Callable

import pytest
from flask import Flask

from pit_protocol import PROTOCOL
from pit_protocol.version_check import HEADER
from tests.support.clusters.head import ONE_DATABASE, Caller, Person

pytestmark = ONE_DATABASE


def test_every_answer_names_the_protocol(app: Flask, anna: Person) -> None:
    for path in ("/", "/me", "/nowhere"):
        assert anna.get(path).headers[HEADER] == str(PROTOCOL)


def test_a_newer_client_learns_that_the_head_is_to_be_upgraded(anna: Person) -> None:
    answer = anna.get("/me", headers={HEADER: str(PROTOCOL + 1)})
    assert (answer.status_code, answer.json["code"]) == (426, "protocol_mismatch")
    assert answer.json["message"].endswith(": upgrade the head")


@pytest.mark.threat("F41")
def test_an_older_worker_learns_that_it_is_to_be_upgraded(app: Flask, a_node: Callable[..., Caller]) -> None:
    worker = a_node()
    answer = app.test_client().post(
        "/api/v1/node/session", json={}, headers={"Authorization": f"Bearer {worker.token}"}
    )
    assert answer.status_code == 426
    assert answer.json["message"] == (
        f"the worker speaks protocol 1 and the head protocol {PROTOCOL}: upgrade the worker"
    )


def test_a_script_need_not_name_a_protocol(app: Flask, anna: Person) -> None:
    token = {"Authorization": f"Bearer {anna.token}"}
    assert app.test_client().get("/api/v1/me", headers=token).status_code == 200
