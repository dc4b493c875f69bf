"""Which role may call which route."""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.routing import Rule

from pit_protocol.problem import Problem
from pit_protocol.version_check import HEADERS
from pit_server.api.http.guard import Role
from pit_server.app import create_head
from pit_server.context import Head
from pit_server.settings import Settings
from tests.support.clusters.head import NOW, Caller, Person, Worker, a_submission

VALUES = {"number": "1", "sha256": "0" * 64, "name": "n0", "group": "g", "index": "0", "token_id": "1"}
VALUES |= {"where": "home/x", "job": "1", "attempt": "1"}
METHODS = {"GET", "POST", "PUT", "DELETE", "PATCH"}
JOB_ROUTES = [
    ("GET", "/jobs/{}"),
    ("POST", "/jobs/{}/stop"),
    ("GET", "/jobs/{}/log"),
    ("GET", "/jobs/{}/log/raw"),
    ("GET", "/jobs/{}/archive"),
]
CHANGING_JOB_ROUTES = [
    ("PATCH", "/jobs/{}"),
    ("DELETE", "/jobs/{}"),
    ("PUT", "/jobs/{}/groups/g"),
    ("DELETE", "/jobs/{}/groups/g"),
]


def routes(app: Flask, *kinds: Role) -> Iterator[tuple[str, str]]:
    """Those of the API."""
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/api/v1") and app.view_functions[rule.endpoint].role in kinds:
            for method in sorted((rule.methods or set()) & METHODS):
                yield method, _path(rule)


def _path(rule: Rule) -> str:
    path = rule.rule
    for name, value in VALUES.items():
        path = re.sub(rf"<(\w+:)?{name}>", value, path)
    return path.removeprefix("/api/v1")


@pytest.mark.threat("S01")
def test_every_route_declares_its_role(app: Flask) -> None:
    undeclared = [
        rule.rule
        for rule in app.url_map.iter_rules()
        if not isinstance(getattr(app.view_functions[rule.endpoint], "role", None), Role)
    ]
    assert undeclared == []


@pytest.mark.threat("S01")
def test_a_route_without_a_role_is_closed(app: Flask, anna: Person) -> None:
    app.add_url_rule("/api/v1/forgotten", view_func=lambda: "secrets", endpoint="forgotten")
    assert anna.get("/forgotten").status_code == 403


@pytest.mark.threat("S01")
def test_without_a_token_only_public_routes_answer(app: Flask) -> None:
    with app.test_client() as client:
        answers = {
            (method, path): client.open("/api/v1" + path, method=method, headers=HEADERS).status_code
            for method, path in routes(app, *set(Role) - {Role.ANYONE})
        }
        assert set(answers.values()) == {401}, answers
        assert client.get("/api/v1/").status_code == 200


@pytest.mark.threat("S02")
def test_a_users_token_is_refused_by_node_routes(app: Flask, anna: Person) -> None:
    for method, path in routes(app, Role.NODE, Role.JOIN):
        answer = anna.call(method, path)
        assert (answer.status_code, answer.json["code"]) == (403, "wrong_kind_of_token"), path


@pytest.mark.threat("S02")
def test_a_nodes_token_is_refused_by_user_routes(app: Flask, a_node: Callable[..., Worker]) -> None:
    worker = a_node()
    for method, path in routes(app, Role.USER, Role.ADMIN, Role.JOIN):
        answer = worker.call(method, path)
        assert (answer.status_code, answer.json["code"]) == (403, "wrong_kind_of_token"), path


@pytest.mark.threat("S11")
def test_a_token_in_the_url_is_refused(anna: Person) -> None:
    for query in ("token={}", "access_token=x", "x={}"):
        answer = anna.get("/me?" + query.format(anna.token))
        assert (answer.status_code, answer.json["code"]) == (400, "token_in_url")
        assert anna.token not in answer.text


def test_a_token_in_a_repeated_url_argument_is_refused(anna: Person) -> None:
    assert anna.get(f"/me?x=1&x={anna.token}").status_code == 400


def test_a_filter_that_merely_resembles_a_token_is_accepted(anna: Person) -> None:
    assert anna.get("/jobs", query_string={"title": "pit_tuning%"}).status_code == 200


@pytest.mark.threat("S08")
def test_an_expired_token_gets_its_own_error(a_user: Callable[..., Person]) -> None:
    answer = a_user("anna", now=NOW, days=1).get("/me")
    assert answer.status_code == 401
    assert answer.json["message"] == "the token has expired"
    assert answer.mimetype == "application/problem+json"


def test_a_forged_token_is_refused(app: Flask, anna: Person) -> None:
    tokens = [
        "pit_999_" + "a" * 43,
        "pit_1_" + "a" * 43,
        "pit_999999999999999999_" + "a" * 43,
        "pit_1_short",
        "pit_1_" + "a" * 44,
        "pit_-1_" + "a" * 43,
        "pit_1_" + "ä" * 43,
        "pit_' OR 1=1 --",
        "x",
    ]
    answers = {token: Caller(app, "nobody", token).get("/me") for token in tokens}
    odd = {token: answer.json for token, answer in answers.items() if answer.status_code != 401}
    assert odd == {}
    assert {answer.json["code"] for answer in answers.values()} == {"unknown_token"}


def test_a_header_without_a_bearer_token_is_refused(anna: Person) -> None:
    for header in ("", "Bearer", "Bearer ", "Basic YTpi", "pit_1_x"):
        answer = anna.get("/me", headers={"Authorization": header})
        assert (answer.status_code, answer.json["code"]) == (401, "no_token")


@pytest.mark.threat("S13")
def test_another_users_job_does_not_exist(
    a_user: Callable[..., Person], a_waiting_job: Callable[..., int], a_node: Callable[..., Worker]
) -> None:
    a_node()
    number = a_waiting_job(with_tree=True)
    berta = a_user("berta")
    for method, path in JOB_ROUTES + CHANGING_JOB_ROUTES:
        hers = berta.call(method, path.format(number), json={"set": {"title": "x"}})
        nobodys = berta.call(method, path.format(999), json={"set": {"title": "x"}})
        assert hers.status_code == nobodys.status_code == 404, path
        assert hers.text.replace(f"job {number}", "job 999") == nobodys.text


def test_an_admin_sees_every_job(
    a_user: Callable[..., Person], a_waiting_job: Callable[..., int], a_node: Callable[..., Worker]
) -> None:
    a_node()
    number = a_waiting_job(with_tree=True)
    root = a_user("root", admin=True)
    for method, path in JOB_ROUTES:
        with closing(root.call(method, path.format(number))) as answer:
            assert answer.status_code == 200, path


def test_another_users_job_is_not_listed_and_cannot_be_continued(
    a_user: Callable[..., Person],
    a_waiting_job: Callable[..., int],
    anna: Person,
    a_node: Callable[..., Worker],
) -> None:
    a_node()
    number = a_waiting_job(with_tree=True)
    anna.stop(number)
    berta = a_user("berta")
    assert berta.get("/jobs").json == {"jobs": [], "total": 0}
    assert berta.get("/jobs?user=anna").json["total"] == 0
    status = berta.get("/status").json
    assert [status["running"], status["waiting"], status["done"]] == [[], [], []]
    assert status["totals"] == {"running": 0, "waiting": 0, "done": 0, "unapproved": 0}
    assert berta.post("/jobs", json=a_submission(continues=number)).status_code == 404


@pytest.mark.threat("S07")
def test_no_issued_token_is_in_the_database(
    head: Head, anna: Person, a_node: Callable[..., Worker], database_url: str
) -> None:
    worker = a_node()
    assert anna.get("/me").status_code == 200
    worker.beat()
    secrets = [caller.token.split("_", 2)[2] for caller in (anna, worker)]
    with head.database.engine.connect() as connection:
        stored = connection.exec_driver_sql("SELECT * FROM token").all()
    assert not [1 for row, secret in itertools.product(stored, secrets) if secret in repr(row)]
    if not database_url:
        files = b"".join(path.read_bytes() for path in head.settings.home.glob("pit.db*"))
        assert not [secret for secret in secrets if secret.encode() in files]


def test_the_heads_home_is_private(tmp_path: Path) -> None:
    head = create_head(Settings(home=tmp_path / "new"))
    head.database.dispose()
    assert head.settings.home.stat().st_mode & 0o077 == 0


@pytest.mark.threat("S09")
def test_names_that_are_paths_or_options_are_refused(head: Head, a_user: Callable[..., Person]) -> None:
    for name in ("../x", "-rf", "Bob", "bоb", "", "a" * 33, "a/b", "a b"):
        with pytest.raises(Problem, match="cannot be the name of a user"):
            a_user(name)
