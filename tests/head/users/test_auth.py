"""Authentication: registration, login, tokens, and what an attacker learns."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from pit_protocol.problem import Problem
from pit_server.app import create_app, create_head
from pit_server.context import Head
from pit_server.db.models import User
from pit_server.services.users import registration
from pit_server.services.users.passwords import Passwords
from pit_server.services.users.rate_limit import RateLimit, TooManyAttempts
from pit_server.settings import Settings
from tests.support.clusters.head import NOW, ONE_DATABASE, Person

PASSWORD = "correct horse"


def register(app: Flask, name: str = "berta", **fields: Any) -> TestResponse:
    body = {"name": name, "full_name": "Berta B.", "password": PASSWORD, **fields}
    return app.test_client().post("/api/v1/users", json=body)


def log_in(app: Flask, name: str = "berta", password: str = PASSWORD, **fields: Any) -> TestResponse:
    return app.test_client().post("/api/v1/login", json={"name": name, "password": password, **fields})


def an_app(tmp_path: Path, **settings: Any) -> Flask:
    return create_app(create_head(Settings(home=tmp_path / "other", bcrypt_cost=4, **settings)))


def setup_code(head: Head) -> str:
    with head.database.write() as session:
        return registration.make_setup_code(session) or ""


def test_registering_logs_in_and_the_password_works_later(app: Flask, anna: Person) -> None:
    answer = register(app, email="berta@example.org", label="laptop")
    assert answer.status_code == 201
    berta = Person(app, "berta", answer.json["token"])
    me = berta.get("/me").json
    assert (me["name"], me["full_name"], me["email"], me["admin"]) == (
        "berta",
        "Berta B.",
        "berta@example.org",
        False,
    )
    again = log_in(app, label="cluster login")
    assert again.status_code == 201
    labels = [token["label"] for token in berta.get("/tokens").json["tokens"]]
    assert labels == ["laptop", "cluster login"]


def test_a_setup_code_can_be_checked_without_using_it_up(app: Flask, head: Head) -> None:
    code = setup_code(head)
    check = partial(app.test_client().post, "/api/v1/setup-code")
    assert check(json={"setup_code": "0" * 16}).json["code"] == "bad_setup_code"
    assert check(json={"setup_code": code}).json == {"valid": True}
    assert register(app, "root", setup_code=code).status_code == 201
    assert check(json={"setup_code": code}).status_code == 403


def test_the_status_of_an_admin_names_who_waits_for_approval(tmp_path: Path) -> None:
    app = an_app(tmp_path)
    code = setup_code(app.extensions["pit"])
    root = Person(app, "root", register(app, "root", setup_code=code).json["token"])
    register(app, "jill")
    register(app, "anna")
    status = root.get("/status?limit=1").json
    assert (status["unapproved"], status["totals"]["unapproved"]) == (["jill"], 2)
    root.ok(root.patch("/users/jill", active="yes"))
    jill = Person(app, "jill", log_in(app, "jill").json["token"])
    assert jill.get("/status").json["unapproved"] == []
    root.ok(root.patch("/users/anna", active="yes"))
    root.ok(root.patch("/users/jill", active="no"))
    assert root.get("/status").json["unapproved"] == []


def test_the_first_user_needs_the_setup_code_and_becomes_admin(app: Flask, head: Head) -> None:
    assert app.test_client().get("/api/v1/").json["needs_setup"] is True
    code = setup_code(head)
    assert register(app, "mallory").json["code"] == "bad_setup_code"
    assert register(app, "mallory", setup_code="0" * 16).status_code == 403
    answer = register(app, "root", setup_code=f" {code}\n")
    assert answer.status_code == 201
    assert Person(app, "root", answer.json["token"]).get("/me").json["admin"] is True
    # The code is used: the next one is an ordinary user, with or without it.
    other = register(app, "berta", setup_code=code)
    assert Person(app, "berta", other.json["token"]).get("/me").json["admin"] is False


@pytest.mark.threat("S10")
def test_only_one_of_two_concurrent_first_users_becomes_admin(
    app: Flask, head: Head, in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    code = setup_code(head)
    racers = [in_thread(lambda name=name: register(app, name, setup_code=code)) for name in ("ada", "bob")]  # type: ignore[misc]
    for answer in [racer() for racer in racers]:
        assert answer.status_code in (201, 403), answer.json
    with head.database.read() as session:
        assert session.query(User).filter(User.is_admin).count() == 1


@pytest.mark.parametrize("bind", ["127.0.0.1:7478", "[::1]:7478", "unix:/run/pit.sock", "0.0.0.0:7478"])
@pytest.mark.threat("S10")
def test_an_admin_has_to_approve_wherever_the_head_listens(tmp_path: Path, bind: str) -> None:
    app = an_app(tmp_path, bind=bind)
    code = setup_code(app.extensions["pit"])
    root = Person(app, "root", register(app, "root", setup_code=code).json["token"])
    answer = register(app)
    assert (answer.status_code, "token" in answer.json) == (202, False)
    assert "pit set user:berta active=yes" in answer.json["message"]
    refused = log_in(app)
    assert (refused.status_code, refused.json["message"]) == (403, "user berta is not active")
    assert [u["state"] for u in root.get("/users").json["users"]] == ["unapproved", "active"]
    root.ok(root.patch("/users/berta", active="yes"))
    assert log_in(app).status_code == 201


@pytest.mark.threat("S10")
def test_a_closed_head_refuses_registration(tmp_path: Path) -> None:
    app = an_app(tmp_path, registration="closed")
    code = setup_code(app.extensions["pit"])
    assert register(app, "root", setup_code=code).status_code == 201  # but the first
    answer = register(app)
    assert (answer.status_code, answer.json["code"]) == (403, "registration_closed")


def test_an_unknown_registration_mode_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="registration must be auto, open, approve or closed, not 'maybe'"):
        an_app(tmp_path, registration="maybe")


@ONE_DATABASE
@pytest.mark.parametrize(
    "name", ["Bob", "bоb", "../x", "-rf", "", "me", "all", "~", "a" * 33, "a\0b", "a" * 10_000]
)
@pytest.mark.threat("S09")
def test_invalid_and_reserved_names_are_refused(app: Flask, anna: Person, name: str) -> None:
    answer = register(app, name)
    assert answer.status_code == 422, answer.json
    assert len(answer.text) < 500


@pytest.mark.threat("S09")
def test_a_name_is_taken_once_even_concurrently(
    app: Flask, anna: Person, in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    tries = [in_thread(lambda: register(app)) for _ in range(6)]
    assert sorted(answer().status_code for answer in tries) == [201, *[409] * 5]
    answer = register(app, "anna")
    assert (answer.status_code, answer.json["message"]) == (409, "there is a user anna already")


@ONE_DATABASE
@pytest.mark.parametrize(
    "password", ["short", "x" * 73, "ä" * 37, "nul\0inside", "x" * 1_000_000, "\ud800" * 9]
)
@pytest.mark.threat("S04", "S05")
def test_invalid_passwords_are_refused_and_never_truncated(app: Flask, anna: Person, password: str) -> None:
    answer = register(app, password=password)
    assert answer.status_code in (413, 422)
    assert password not in answer.text
    assert log_in(app, "anna", password).status_code in (401, 413, 422)


@pytest.mark.threat("S04")
def test_the_longest_password_differs_from_one_with_another_tail(app: Flask, anna: Person) -> None:
    assert register(app, password="x" * 72).status_code == 201
    assert log_in(app, password="x" * 72).status_code == 201
    assert log_in(app, password="x" * 71 + "y").status_code == 401
    assert log_in(app, password="x" * 73).status_code == 401


@pytest.mark.threat("S12")
def test_fields_that_would_make_an_admin_are_unknown(app: Flask, anna: Person) -> None:
    for extra in ({"is_admin": True}, {"admin": "yes"}, {"user_id": 1}, {"approved_at": 1}):
        answer = register(app, **extra)
        assert (answer.status_code, answer.json["code"]) == (422, "unknown_field")
    assert log_in(app).status_code == 401


@pytest.mark.threat("S03")
def test_an_unknown_name_and_a_wrong_password_get_the_same_answer(app: Flask, anna: Person) -> None:
    register(app)
    unknown, wrong = log_in(app, "nobody"), log_in(app, "berta", "wrong password")
    assert (unknown.status_code, unknown.text) == (wrong.status_code, wrong.text) == (401, wrong.text)


@pytest.mark.threat("S03")
def test_checking_an_unknown_user_takes_as_long() -> None:
    passwords = Passwords(8)
    hashed = passwords.make(PASSWORD)

    def taken(known: str | None) -> float:
        begun = thread_time()
        assert not passwords.is_right("wrong password", known)
        return thread_time() - begun

    both = [(taken(hashed), taken(None)) for _ in range(15)]
    real, nobody = (median(column) for column in zip(*both, strict=True))
    assert 0.5 < nobody / real < 2


@pytest.mark.threat("S06")
def log_in_from(app: Flask, address: str, password: str = PASSWORD) -> TestResponse:
    body = {"name": "berta", "password": password}
    return app.test_client().post("/api/v1/login", json=body, environ_base={"REMOTE_ADDR": address})


@ONE_DATABASE
def test_guesses_from_one_address_lock_nobody_out_elsewhere(app: Flask, anna: Person) -> None:
    register(app)
    for _ in range(10):
        assert log_in_from(app, "203.0.113.9", "wrong password").status_code == 401
    answer = log_in_from(app, "203.0.113.9")
    assert (answer.status_code, answer.json["code"]) == (429, "too_many_tries")
    assert 1 <= int(answer.headers["Retry-After"]) <= 61
    assert log_in_from(app, "127.0.0.1").status_code == 201


@ONE_DATABASE
def test_guesses_from_many_addresses_are_limited_and_the_owner_still_gets_in(
    app: Flask, anna: Person
) -> None:
    token = register(app).json["token"]
    assert log_in_from(app, "2001:db8::1").status_code == 201
    for number in range(100):
        assert log_in_from(app, f"203.0.113.{number}", "wrong password").status_code == 401
    assert log_in_from(app, "203.0.113.200", "wrong password").status_code == 429
    assert log_in_from(app, "2001:db8::2").status_code == 201  # the same network
    assert log_in_from(app, "2001:db8:0:1::1").status_code == 429
    assert Person(app, "berta", token).get("/me").status_code == 200


def test_guessing_names_is_rate_limited_per_address(app: Flask, anna: Person) -> None:
    for number in range(10):
        assert log_in(app, f"name{number}").status_code == 401
    assert log_in(app, "name11").status_code == 429
    assert anna.get("/me").status_code == 200


def test_attempts_count_for_a_minute() -> None:
    now = [0.0]
    rate_limit = RateLimit(clock=lambda: now[0])
    rate_limit.take({"a": 2})
    rate_limit.take({"a": 2})
    with pytest.raises(TooManyAttempts, match="too many attempts"):
        rate_limit.take({"b": 2, "a": 2})
    rate_limit.take({"b": 2})
    rate_limit.refund(["b"])
    now[0] = 60.0
    rate_limit.take({"a": 2})


def test_concurrent_guesses_are_rate_limited(
    app: Flask, anna: Person, in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    tries = [in_thread(lambda: log_in(app, "anna", "wrong password")) for _ in range(15)]
    assert sorted(answer().status_code for answer in tries) == [*[401] * 10, *[429] * 5]


@pytest.mark.threat("S08")
def test_a_revoked_token_is_refused(app: Flask, anna: Person) -> None:
    first = Person(app, "berta", register(app).json["token"])
    second = Person(app, "berta", log_in(app).json["token"])
    (old,) = [token["id"] for token in second.get("/tokens").json["tokens"] if not token["current"]]
    assert second.delete(f"/tokens/{old}").status_code == 200
    assert first.get("/me").status_code == 401
    assert second.delete("/tokens/current").status_code == 200
    assert second.get("/me").status_code == 401


def test_another_users_token_does_not_exist(
    anna: Person, a_user: Callable[..., Person], root: Person
) -> None:
    berta = a_user("berta")
    (token,) = berta.get("/tokens").json["tokens"]
    for wanted in (token["id"], 999, "x", "9" * 30, "-1"):
        answer = anna.delete(f"/tokens/{wanted}")
        assert (answer.status_code, answer.json["code"]) == (404, "no_such_token")
    assert anna.get("/tokens?user=berta").status_code == 403
    assert [t["user"] for t in root.get("/tokens?user=*").json["tokens"]] == ["anna", "root", "berta"]
    assert root.delete(f"/tokens/{token['id']}").status_code == 200
    assert berta.get("/me").status_code == 401


@pytest.mark.threat("S08")
def test_a_long_poll_ends_when_its_token_is_revoked(
    app: Flask,
    head: Head,
    anna: Person,
    root: Person,
    a_node: Callable[..., Any],
    a_waiting_job: Callable[..., int],
    in_thread: Callable[..., Callable[[], TestResponse]],
) -> None:
    a_node()
    number = a_waiting_job()
    held = in_thread(lambda: anna.get(f"/jobs/{number}?wait_s=10"))
    (token,) = anna.get("/tokens").json["tokens"]
    anna.ok(anna.delete(f"/tokens/{token['id']}"))
    root.ok(root.stop(number))  # wakes the long poll: without the check it would answer with the record
    assert held().status_code == 401


@pytest.mark.threat("S07")
def test_no_password_and_no_token_is_in_the_database_or_the_audit(
    app: Flask, head: Head, root: Person
) -> None:
    token = register(app).json["token"]
    root.ok(root.patch("/users/berta", password="another secret"))
    with head.database.engine.connect() as connection:
        tables = ("user_account", "token", "audit", "fact")
        rows = [connection.exec_driver_sql(f"SELECT * FROM {table}").all() for table in tables]
    dump = repr(rows)
    assert PASSWORD not in dump and "another secret" not in dump
    assert token.split("_", 2)[2] not in dump
    assert "berta" in dump and str(NOW) in dump


def test_a_new_password_needs_the_current_one_and_ends_other_sessions(app: Flask, root: Person) -> None:
    here, there = (Person(app, "berta", register_or_log_in(app, root)) for _ in range(2))
    for old in ({}, {"old_password": "wrong password"}):
        refused = here.patch("/users/me", password="another secret", **old)
        assert (refused.status_code, refused.json["code"]) == (403, "old_password")
    here.ok(here.patch("/users/me", password="another secret", old_password=PASSWORD))
    assert here.get("/me").status_code == 200
    assert there.get("/me").status_code == 401
    root.ok(root.patch("/users/berta", password="a third secret"))
    assert here.get("/me").status_code == 401


def register_or_log_in(app: Flask, root: Person) -> str:
    """A token of berta's, who registers at the first call."""
    answer = log_in(app)
    if answer.status_code != 201:
        register(app)
        root.ok(root.patch("/users/berta", active="yes"))
        answer = log_in(app)
    return str(answer.json["token"])
