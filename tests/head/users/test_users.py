"""Users, groups and aliases: adding, changing and removing them, and permissions."""

from collections.abc import Callable

import pytest
from werkzeug.test import TestResponse

from pit_server.context import Head
from tests.support.clusters.head import ONE_DATABASE, Person, Worker

MEGABYTE = "x" * 1_000_000


def test_an_admin_adds_changes_and_removes_a_user(root: Person) -> None:
    record = root.ok(root.put("/users/berta", full_name="Berta B.", password="correct horse"))
    assert (record["name"], record["state"]) == ("berta", "active")
    assert root.ok(root.patch("/users/berta", admin="yes"))["admin"] is True
    assert root.ok(root.delete("/users/berta"))["name"] == "berta"
    assert root.get("/users/berta").status_code == 404


def test_a_removed_users_name_stays_taken(root: Person) -> None:
    root.ok(root.put("/users/berta", full_name="Berta B."))
    root.ok(root.delete("/users/berta"))
    assert root.put("/users/berta", full_name="Another").json["code"] == "exists"
    body = {"name": "berta", "full_name": "Another", "password": "correct horse"}
    assert root.post("/users", json=body).status_code == 409


def test_a_removed_users_token_is_refused_at_once(a_user: Callable[..., Person], root: Person) -> None:
    berta = a_user("berta")
    root.ok(root.delete("/users/berta"))
    assert berta.get("/me").status_code == 401


def test_a_user_with_open_jobs_cannot_be_removed(
    root: Person, anna: Person, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int]
) -> None:
    a_node()
    number = a_waiting_job()
    answer = root.delete("/users/anna")
    assert (answer.status_code, answer.json["message"]) == (
        409,
        f"user anna is in use: job {number} has not ended",
    )
    root.ok(root.stop(number))
    root.ok(root.delete("/users/anna"))
    assert root.job(number)["user"] == "anna"


def test_the_last_admin_and_oneself_cannot_be_removed(root: Person, a_user: Callable[..., Person]) -> None:
    assert root.delete("/users/root").json["code"] == "own_account"
    assert root.patch("/users/me", admin="no").json["code"] == "last_admin"
    assert root.patch("/users/root", active="no").json["code"] == "last_admin"
    other = a_user("other", admin=True)
    root.ok(root.patch("/users/me", admin="no"))
    assert root.delete("/users/other").json["code"] == "not_allowed"
    assert other.patch("/users/other", admin="no").json["code"] == "last_admin"


def test_two_admins_cannot_demote_each_other_at_once(
    root: Person, a_user: Callable[..., Person], in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    other = a_user("other", admin=True)
    both = [
        in_thread(lambda: root.patch("/users/other", admin="no")),
        in_thread(lambda: other.patch("/users/root", admin="no")),
    ]
    for answer in both:
        assert answer().status_code in (200, 403, 409)
    admins = [user for person in (root, other) for user in [person.get("/me").json] if user["admin"]]
    assert len(admins) == 1


def test_a_user_changes_only_their_own_account(anna: Person, a_user: Callable[..., Person]) -> None:
    a_user("berta")
    assert (
        anna.ok(anna.patch("/users/me", full_name="Anna A.", email="a@example.org"))["full_name"] == "Anna A."
    )
    assert anna.patch("/users/berta", full_name="Changed").json["code"] == "not_allowed"
    for name in ("admin", "active"):
        assert anna.patch("/users/me", **{name: "yes"}).status_code == 403
    assert anna.patch("/users/me", full_name="New", admin="yes").status_code == 403
    assert anna.get("/me").json["full_name"] == "Anna A."


def test_users_see_only_names_and_common_groups_of_others(
    anna: Person, a_user: Callable[..., Person]
) -> None:
    a_user("berta")
    assert anna.get("/users/berta").json == {"name": "berta", "full_name": "", "groups": []}
    (mine,) = [user for user in anna.get("/users").json["users"] if user["name"] == "anna"]
    assert mine["state"] == "active"


@ONE_DATABASE
@pytest.mark.parametrize(
    ("path", "properties", "code"),
    [
        ("/users/anna", {"adminn": "yes"}, "unknown_property"),
        ("/users/anna", {"admin": "maybe"}, "bad_admin"),
        ("/users/anna", {"email": "no address"}, "bad_email"),
        ("/users/anna", {"full_name": "  "}, "bad_full_name"),
        ("/users/anna", {"full_name": "x" * 300}, "bad_full_name"),
        ("/users/anna", {"full_name": "two\nlines"}, "bad_full_name"),
        ("/users/anna", {"autoshare": "nogroup"}, "no_member"),
        ("/users/anna", {}, "nothing_to_set"),
        ("/users/nobody", {"admin": "yes"}, "no_such_user"),
        ("/groups/nogroup", {"title": "x"}, "no_such_group"),
        ("/aliases/noalias", {"name": "x"}, "no_such_alias"),
        ("/nodes/nonode", {"slots": "3"}, "no_such_node"),
    ],
)
def test_an_invalid_property_is_refused_and_changes_nothing(
    root: Person, anna: Person, path: str, properties: dict[str, str], code: str
) -> None:
    before = root.get("/users/anna").json
    answer = root.patch(path, **properties)
    assert answer.json["code"] == code
    assert len(answer.text) < 500
    assert root.get("/users/anna").json == before


def test_an_unknown_property_is_answered_with_the_known_ones(root: Person) -> None:
    answer = root.patch("/users/me", fullname="x")
    assert answer.json["message"] == "a user has no property 'fullname'"
    assert answer.json["hint"] == (
        "its properties are full_name, email, password, autoshare, admin, active, jobs, uid, quota, "
        "share_group, max_priority, max_running, max_waiting, max_gpus, max_job_gpus, max_time, "
        "max_gpu_hours, git.NAME, notify, notify.NAME"
    )
    assert root.put("/users/new").json["message"] == "a user needs full_name"
    assert root.patch("/users/me", **{MEGABYTE: "x"}).status_code in (413, 422)
    assert root.patch("/users/me", full_name=MEGABYTE).status_code in (413, 422)
    assert root.call("PATCH", "/users/me", json={"set": {"admin": True}}).status_code == 422
    assert root.call("PATCH", "/users/me", json=[1]).status_code == 422


@ONE_DATABASE
@pytest.mark.parametrize("kind", ["users", "groups", "aliases", "nodes"])
@pytest.mark.parametrize("name", ["Bob", "bоb", "-rf", "me", "all", "~", "a" * 65, "a%2Fb", "a b"])
def test_invalid_and_reserved_names_are_refused(root: Person, kind: str, name: str) -> None:
    properties = {"users": {"full_name": "x"}, "aliases": {"name": "x"}}.get(kind, {})
    answer = root.put(f"/{kind}/{name}", **properties)
    assert answer.status_code in (404, 422), answer.json


@pytest.mark.parametrize("kind", ["users", "groups", "aliases", "nodes"])
def test_concurrent_adds_create_one_object(
    root: Person, kind: str, in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    properties = {"users": {"full_name": "x"}, "aliases": {"name": "x"}}.get(kind, {})
    tries = [in_thread(lambda: root.put(f"/{kind}/twice", **properties)) for _ in range(5)]
    assert sorted(answer().status_code for answer in tries) == [201, *[409] * 4]


def test_a_group_in_use_names_its_members_and_nodes(
    root: Person, anna: Person, a_group: Callable[..., None], a_node: Callable[..., Worker]
) -> None:
    a_group("students", "anna")
    a_node(gpus={"A100": 1})
    root.ok(root.put("/nodes/n0/groups/students"))
    root.ok(root.put("/nodes/n0/resources/0/groups/students"))
    assert root.delete("/groups/students").json["message"] == "group students is in use: members are anna"
    root.ok(root.delete("/users/anna/groups/students"))
    answer = root.delete("/groups/students")
    assert answer.json["message"] == "group students is in use: reserved for it are n0, n0:0"
    root.ok(root.delete("/nodes/n0/groups/students"))
    root.ok(root.delete("/nodes/n0/resources/0/groups/students"))
    root.ok(root.delete("/groups/students"))


def test_a_groups_data_goes_to_the_trash_and_to_no_later_group(
    root: Person, head: Head, a_group: Callable[..., None]
) -> None:
    a_group("students")
    (head.data.group("students") / "exam").write_text("secret")
    root.ok(root.delete("/groups/students"))
    assert not head.data.group("students").exists()
    head.data.group("students").mkdir()  # as left by a killed head
    (head.data.group("students") / "exam").write_text("secret")
    a_group("students")
    assert list(head.data.group("students").iterdir()) == []
    assert len(list((head.data.root / "trash").iterdir())) == 2


def test_concurrent_groups_cannot_have_the_same_variable(
    root: Person, in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    tries = [in_thread(lambda name=name: root.put(f"/groups/{name}")) for name in ("aa-b", "aa_b")]  # type: ignore[misc]
    assert sorted(answer().status_code for answer in tries) == [201, 409]


@pytest.mark.parametrize("kind", ["users", "groups", "aliases", "nodes"])
def test_concurrent_removals_succeed_once(
    root: Person, kind: str, in_thread: Callable[..., Callable[[], TestResponse]]
) -> None:
    properties = {"users": {"full_name": "x"}, "aliases": {"name": "x"}}.get(kind, {})
    root.ok(root.put(f"/{kind}/gone", **properties))
    tries = [in_thread(lambda: root.delete(f"/{kind}/gone")) for _ in range(6)]
    assert sorted(answer().status_code for answer in tries) == [200, *[404] * 5]


def test_a_name_with_nul_is_not_found(root: Person) -> None:
    for path in ("/users/a%00b", "/groups/a%00b", "/nodes/a%00b", "/jobs?user=a%00b", "/audit?actor=a%00b"):
        assert root.get(path).status_code == 404, path


def test_two_groups_cannot_have_the_same_variable(root: Person) -> None:
    root.ok(root.put("/groups/deep-learning"))
    assert root.put("/groups/deep_learning").json["message"] == (
        "group deep-learning has the variable DEEP_LEARNING_GROUP_DIR already"
    )


def test_members_see_each_other_and_others_do_not(
    root: Person, anna: Person, a_user: Callable[..., Person], a_group: Callable[..., None]
) -> None:
    berta = a_user("berta")
    a_group("students", "anna")
    assert anna.get("/groups/students").json["members"] == ["anna"]
    assert berta.get("/groups/students").json == {"name": "students", "title": "", "nodes": []}
    assert berta.get("/users/anna").json["groups"] == []
    assert berta.put("/users/berta/groups/students").status_code == 403
    assert berta.delete("/users/anna/groups/students").status_code == 403
    assert berta.delete("/users/me/groups/students").json["code"] == "no_member"
    anna.ok(anna.delete("/users/me/groups/students"))
    assert anna.get("/me").json["groups"] == []


@ONE_DATABASE
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/users/new"),
        ("DELETE", "/users/root"),
        ("PUT", "/groups/new"),
        ("PATCH", "/groups/new"),
        ("DELETE", "/groups/new"),
        ("PUT", "/aliases/new"),
        ("PATCH", "/aliases/new"),
        ("DELETE", "/aliases/new"),
        ("PUT", "/nodes/new"),
        ("PATCH", "/nodes/new"),
        ("DELETE", "/nodes/new"),
        ("PUT", "/nodes/new/groups/g"),
        ("DELETE", "/nodes/new/resources/0/groups/g"),
        ("GET", "/audit"),
    ],
)
def test_admin_routes_refuse_other_users(anna: Person, root: Person, method: str, path: str) -> None:
    answer = anna.call(method, path, json={"set": {}})
    assert (answer.status_code, answer.json["code"]) == (403, "not_allowed")


def test_every_change_is_in_the_immutable_audit(
    root: Person, head: Head, a_group: Callable[..., None]
) -> None:
    a_group("students")
    root.ok(root.put("/users/berta", full_name="Berta B.", password="correct horse"))
    root.ok(root.patch("/users/berta", admin="yes", active="no"))
    root.ok(root.delete("/users/berta"))
    entries = root.get("/audit").json["entries"]
    assert [(e["act"], e["object"], e["detail"]) for e in reversed(entries)] == [
        ("add", "group:students", ""),
        ("add", "user:berta", "full_name=Berta B., password"),
        ("set", "user:berta", "admin=yes, active=no"),
        ("remove", "user:berta", ""),
    ]
    assert {(e["actor"], e["address"]) for e in entries} == {("root", "127.0.0.1")}
    assert len(root.get("/audit?object=user:berta&limit=2").json["entries"]) == 2
    for statement in ("UPDATE audit SET actor = 'x'", "DELETE FROM audit"):
        with head.database.engine.connect() as connection, pytest.raises(Exception, match="append-only"):
            connection.exec_driver_sql(statement)


def test_a_refused_change_is_not_in_the_audit(root: Person) -> None:
    root.delete("/users/root")
    root.patch("/users/me", admin="no")
    assert root.get("/audit").json["entries"] == []
