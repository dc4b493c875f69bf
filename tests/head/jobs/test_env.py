"""Variables reach the processes of their job, and nobody else can read a secret one."""

import json
from collections.abc import Callable

import pytest
from sqlalchemy import update

from pit_protocol.variables import OWN, check_variables
from pit_server.context import Head
from pit_server.db.models import Job
from pit_server.services.users.secrets import KEY_FILE
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_submission, ended, skip_preparation

GIVEN = {"TOKEN": "S3CRET-ä'", "LR": "0.1"}  # secret, also what an older client sent with -e
PLAIN = {"LR": "0.1", "NOTE": "ä '"}


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


@pytest.fixture
def berta(
    a_user: Callable[..., Person], worker: Worker, anna: Person, a_group: Callable[..., None]
) -> Person:
    """Sees what anna shares with students."""
    berta = a_user("berta")
    a_group("students", "anna", "berta")
    anna.ok(anna.patch("/users/me", autoshare="students"))
    return berta


def variables_of(head: Head, worker: Worker, number: int) -> dict[str, str]:
    """The variables in the spec of the job's process."""
    skip_preparation(head, number)
    head.scheduling()
    (order,) = worker.orders().values()
    assert order.spec and order.spec.job == number
    worker.beat(ended(order.process))
    return order.spec.variables


def test_they_reach_the_process_and_only_names_are_shown(
    head: Head, worker: Worker, anna: Person, root: Person
) -> None:
    number = anna.submit(variables=GIVEN)
    assert anna.job(number)["variables"] == ["LR", "TOKEN"]
    assert variables_of(head, worker, number) == GIVEN
    texts = [anna.get(path).text for path in (f"/jobs/{number}", "/jobs", "/status", f"/jobs/{number}/log")]
    texts.append(root.get("/audit").text)
    assert not [text for text in texts if "S3CRET" in text]


def test_plain_ones_reach_the_process_and_are_shown(
    head: Head, worker: Worker, anna: Person, berta: Person
) -> None:
    number = anna.submit(env=PLAIN, variables={"TOKEN": "S3CRET"})
    for who in (anna, berta):
        shown = who.job(number)
        assert (shown["options"]["env"], shown["variables"]) == (PLAIN, ["TOKEN"])
    assert variables_of(head, worker, number) == {**PLAIN, "TOKEN": "S3CRET"}


@ONE_DATABASE
def test_a_plain_one_that_looks_like_a_secret_is_refused(anna: Person, worker: Worker) -> None:
    answer = anna.post("/jobs", json=a_submission(env={"HF_TOKEN": "S3CRET"}))
    assert (answer.status_code, answer.json["code"]) == (422, "looks_secret")
    assert "S3CRET" not in answer.text


@ONE_DATABASE
@pytest.mark.parametrize(
    ("env", "variables", "message"),
    [
        ({"RANK": "0"}, {}, "RANK is set by pit itself"),
        ({"A": ["x"]}, {}, "field 'options.env[...]' must be str, not a list"),
        ({"A": "x"}, {"A": "y"}, "A is given both as a plain variable and as a secret"),
        (
            {"A": "x" * 40_000},
            {"B": "x" * 40_000},
            "the variables of a job can have at most 65,536 bytes in total, not 80,002",
        ),
    ],
)
def test_invalid_plain_variables_are_refused(
    anna: Person, worker: Worker, env: dict[str, str], variables: dict[str, str], message: str
) -> None:
    answer = anna.post("/jobs", json=a_submission(env=env, variables=variables))
    assert (answer.status_code, answer.json["message"]) == (422, message)


def test_the_database_stores_them_encrypted(
    head: Head, worker: Worker, anna: Person, database_url: str
) -> None:
    anna.submit(variables=GIVEN)
    anna.submit(variables={"TOKEN": "S3CRET-ä'"})
    with head.database.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT variables FROM job ORDER BY id").scalars().all()
    first, second = (json.loads(row) if isinstance(row, str) else row for row in rows)
    assert sorted(first) == ["LR", "TOKEN"]
    assert first["TOKEN"] != second["TOKEN"]  # equal values cannot be recognized either
    if not database_url:
        files = b"".join(path.read_bytes() for path in head.settings.home.glob("pit.db*"))
        assert b"S3CRET" not in files


def test_a_value_copied_to_another_job_cannot_be_decrypted(head: Head, worker: Worker, anna: Person) -> None:
    first, second = anna.submit(variables=GIVEN), anna.submit(variables=GIVEN)
    with head.database.write() as session:
        theirs = session.get_one(Job, first).variables
        session.execute(update(Job).where(Job.id == second).values(variables=theirs))
    anna.stop(first)
    skip_preparation(head, second)
    head.scheduling()
    (order,) = worker.orders().values()
    assert order.spec and order.spec.variables == {}
    assert "can no longer decrypt the secrets of this job" in (order.spec.command or "")


def test_after_a_key_change_a_rerun_is_refused_and_the_rest_works(
    head: Head, worker: Worker, anna: Person
) -> None:
    number = anna.submit(variables=GIVEN)
    (head.settings.home / KEY_FILE).write_text("A" * 43 + "=\n")
    again = anna.post("/jobs", json=a_submission(inherits=number))
    assert again.json["message"] == (
        f"the secrets of job {number} cannot be decrypted: the head's key has changed"
    )
    assert again.json["hint"] == "give them again: --secret LR --secret TOKEN"
    assert anna.job(number)["variables"] == ["LR", "TOKEN"]
    assert variables_of(head, worker, anna.submit(variables={"A": "b"})) == {"A": "b"}


@ONE_DATABASE
@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "0"}, "RANK is set by pit itself"),
        ({"a b": "S3CRET"}, "'a b' is not a valid variable name"),
        ({"TOKEN": "S3CRET\0"}, "the value of TOKEN is not valid text: it contains NUL or a lone surrogate"),
        ({"TOKEN": ["S3CRET"]}, "field 'variables[...]' must be str, not a list"),
        ({"A": "x" * 70_000}, "the variables of a job can have at most 65,536 bytes in total, not 70,001"),
    ],
)
def test_invalid_variables_are_refused_without_showing_the_value(
    anna: Person, worker: Worker, variables: dict[str, str], message: str
) -> None:
    answer = anna.post("/jobs", json=a_submission(variables=variables))
    assert (answer.status_code, answer.json["message"]) == (422, message)
    assert "S3CRET" not in answer.text


def test_variables_that_pit_sets_are_refused(
    worker: Worker, berta: Person, a_placed_job: Callable[..., int]
) -> None:
    a_placed_job("2:[]")
    spec = next(iter(worker.orders().values())).spec
    assert spec and {"HOST_GROUP0_PROCESS1", "RANK"} <= set(spec.env) and "STUDENTS_GROUP_DIR" in spec.paths
    refused = {name for name in (*spec.env, *spec.paths) if OWN.fullmatch(name)}
    assert {*spec.env, *spec.paths} - refused == {"USER", "LOGNAME"}  # defaults


class TestRerun:
    def test_a_rerun_keeps_them_and_new_values_replace_old_ones(
        self, head: Head, worker: Worker, anna: Person
    ) -> None:
        number = anna.submit(variables=GIVEN)
        assert variables_of(head, worker, number) == GIVEN
        again = anna.submit(inherits=number, variables={"LR": "0.2", "NEW": ""})
        assert variables_of(head, worker, again) == {**GIVEN, "LR": "0.2", "NEW": ""}
        assert variables_of(head, worker, anna.submit(inherits=again)) == {**GIVEN, "LR": "0.2", "NEW": ""}

    def test_a_plain_value_replaces_a_secret_one(self, head: Head, worker: Worker, anna: Person) -> None:
        number = anna.submit(variables=GIVEN)
        variables_of(head, worker, number)
        again = anna.submit(inherits=number, env={"LR": "0.2"})
        assert (anna.job(again)["options"]["env"], anna.job(again)["variables"]) == ({"LR": "0.2"}, ["TOKEN"])
        assert variables_of(head, worker, again) == {**GIVEN, "LR": "0.2"}

    def test_nothing_is_inherited_unless_asked_for(self, head: Head, worker: Worker, anna: Person) -> None:
        variables_of(head, worker, anna.submit(variables=GIVEN))
        assert variables_of(head, worker, anna.submit()) == {}

    def test_another_users_values_must_be_set_again(
        self, head: Head, worker: Worker, anna: Person, berta: Person, root: Person
    ) -> None:
        number = anna.submit(variables=GIVEN)
        for other in (berta, root):
            assert other.job(number)["variables"] == ["LR", "TOKEN"]
            answer = other.post("/jobs", json=a_submission(inherits=number, variables={"LR": "1"}))
            assert (answer.status_code, answer.json["code"]) == (403, "not_your_variables")
            assert answer.json["message"].endswith("can reuse its secrets: TOKEN")
            assert answer.json["hint"].startswith("give your own: `--secret TOKEN`")
        variables_of(head, worker, number)
        mine = berta.submit(inherits=number, variables={"LR": "1", "TOKEN": "berta's"})
        assert variables_of(head, worker, mine) == {"LR": "1", "TOKEN": "berta's"}

    def test_nothing_is_inherited_from_an_invisible_job(
        self, worker: Worker, anna: Person, a_user: Callable[..., Person]
    ) -> None:
        number = anna.submit(variables=GIVEN)
        assert a_user("carl").post("/jobs", json=a_submission(inherits=number)).status_code == 404

    @pytest.mark.threat("S46")
    def test_the_total_size_is_limited(self, worker: Worker, anna: Person) -> None:
        number = anna.submit(variables={"A": "x" * 40_000})
        for more in ({"variables": {"B": "x" * 40_000}}, {"env": {"B": "x" * 40_000}}):
            answer = anna.post("/jobs", json=a_submission(inherits=number, **more))
            assert (answer.status_code, answer.json["code"]) == (422, "bad_variable")

    def test_the_same_key_with_another_value_is_refused(self, worker: Worker, anna: Person) -> None:
        body = a_submission(variables=GIVEN)
        number = anna.post("/jobs", json=body).json["number"]
        assert anna.post("/jobs", json=body).json["number"] == number
        changed = anna.post("/jobs", json={**body, "variables": {**GIVEN, "LR": "0.3"}})
        assert changed.json["code"] == "key_reused"


class TestCompare:
    def compare(self, who: Person, one: int, other: int) -> dict[str, list[str]]:
        return dict(who.ok(who.get(f"/jobs/{one}/variables?to={other}")))

    def test_names_are_listed_by_how_they_differ(self, worker: Worker, anna: Person) -> None:
        one = anna.submit(variables={"SAME": "x", "LR": "0.1", "OLD": "x"})
        other = anna.submit(variables={"SAME": "x", "LR": "0.2", "NEW": "x"})
        assert self.compare(anna, one, other) == {
            "removed": ["OLD"],
            "added": ["NEW"],
            "changed": ["LR"],
            "unknown": [],
        }

    def test_nobody_finds_a_value_by_guessing(self, worker: Worker, anna: Person, berta: Person) -> None:
        one = anna.submit(variables={"PIN": "1234"})
        guess = berta.submit(variables={"PIN": "1234"})
        expected = {"removed": [], "added": [], "changed": [], "unknown": ["PIN"]}
        assert self.compare(berta, one, guess) == expected

    def test_an_invisible_job_cannot_be_compared(
        self, worker: Worker, anna: Person, a_user: Callable[..., Person]
    ) -> None:
        carl = a_user("carl")
        one, mine = anna.submit(variables=GIVEN), carl.submit()
        assert carl.get(f"/jobs/{mine}/variables?to={one}").status_code == 404
        assert carl.get(f"/jobs/{one}/variables?to={mine}").status_code == 404


def empty_trash(who: Person) -> None:
    for entry in who.ok(who.get("/trash"))["trash"]:
        who.ok(who.delete(f"/trash/{entry['id']}"))


def test_they_are_deleted_with_the_job_and_with_its_user(
    head: Head, worker: Worker, anna: Person, root: Person
) -> None:
    first, second = anna.submit(variables=GIVEN), anna.submit(variables=GIVEN)
    for number in (first, second):
        variables_of(head, worker, number)
    anna.ok(anna.delete(f"/jobs/{first}"))
    empty_trash(anna)
    with head.database.read() as session:
        assert session.get_one(Job, first).variables == {}
        assert sorted(session.get_one(Job, second).variables) == ["LR", "TOKEN"]
    root.ok(root.delete("/users/anna"))
    empty_trash(root)
    with head.database.read() as session:
        assert session.get_one(Job, second).variables == {}


def test_path_and_lang_are_only_defaults() -> None:
    check_variables({"PATH": "/opt/bin", "LANG": "de_DE.UTF-8"})
