"""Submissions: what is accepted, what is refused, and the error messages."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pit_protocol.messages.beat import Venv
from pit_server.app import create_app
from pit_server.context import Head
from tests.support.clusters.head import Person, Worker, a_snapshot, a_submission

HASH = "c0ffee" + "0" * 34


@pytest.fixture(autouse=True)
def node(a_node: Callable[..., Worker]) -> Worker:
    return a_node(gpus={"A100": 4})


def refusal(person: Person, **fields: Any) -> tuple[int, str]:
    answer = person.post("/jobs", json=a_submission(**fields))
    assert answer.status_code >= 400
    assert answer.mimetype == "application/problem+json"
    return answer.status_code, answer.json["code"]


def test_a_submission_becomes_a_job_that_is_being_prepared(anna: Person) -> None:
    answer = anna.post("/jobs", json=a_submission(title="  First light ", request="[ 2:A100 ]", private=True))
    assert answer.status_code == 201
    record = answer.json
    assert (record["state"], record["letters"], record["outcome"]) == ("preparing", "PRE", None)
    assert (record["title"], record["request"], record["user"]) == ("First light", "[2:a100]", "anna")
    assert record["options"]["private"] is True
    assert [(event["event"], event["from"], event["to"], event["actor"]) for event in record["events"]] == [
        ("accepted", None, "preparing", "anna")
    ]


@pytest.mark.threat("F02")
def test_the_same_submission_sent_twice_is_one_job(anna: Person) -> None:
    body = a_submission(key="once")
    first, second = anna.post("/jobs", json=body), anna.post("/jobs", json=body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json == second.json
    assert anna.get("/jobs").json["total"] == 1


def test_a_key_used_for_another_job_is_refused(anna: Person) -> None:
    number = anna.submit(key="once")
    answer = anna.post("/jobs", json=a_submission(key="once", title="another"))
    assert answer.status_code == 422
    assert answer.json["message"] == f"this key belongs to job {number}, whose submission differs"


def test_two_people_may_use_the_same_key(a_user: Callable[..., Person], anna: Person) -> None:
    assert anna.submit(key="once") != a_user("berta").submit(key="once")


def test_a_user_may_have_so_many_jobs_that_have_not_started(
    head: Head, anna: Person, a_user: Callable[..., Person]
) -> None:
    few = create_app(replace(head, settings=replace(head.settings, user_waiting_jobs=2)))
    person = Person(few, "anna", anna.token)
    first, key = person.submit(), a_submission(key="second")
    person.ok(person.post("/jobs", json=key))
    answer = person.post("/jobs", json=a_submission())
    assert (answer.status_code, answer.json["code"]) == (429, "too_many_jobs")
    assert answer.json["message"] == "user anna has 2 waiting jobs, and may have 2 (max_waiting)"
    assert person.post("/jobs", json=key).status_code == 200  # it has been accepted before
    assert Person(few, "berta", a_user("berta").token).submit()
    person.ok(person.stop(first))
    assert person.submit()


@pytest.mark.threat("F02")
def test_the_same_submission_sent_by_many_threads_is_one_job(anna: Person) -> None:
    body = a_submission(key="once")
    answers: list[Any] = []
    together = threading.Barrier(8)

    def send() -> None:
        together.wait(120)
        answers.append(anna.post("/jobs", json=body))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert anna.get("/jobs").json["total"] == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]


@pytest.mark.threat("F02")
def test_a_retry_after_a_restart_of_the_head_finds_the_job(head: Head, anna: Person) -> None:
    body = a_submission()
    number = anna.post("/jobs", json=body).json["number"]
    again = Person(create_app(head), "anna", anna.token).post("/jobs", json=body)
    assert (again.status_code, again.json["number"]) == (200, number)


def test_a_refused_submission_leaves_nothing_and_its_key_free(anna: Person) -> None:
    assert refusal(anna, key="k", request="[v100]") == (422, "cannot_be_fulfilled")
    assert anna.get("/jobs").json["total"] == 0
    anna.submit(key="k")


@pytest.mark.threat("S12", "S36")
def test_unknown_fields_are_refused(anna: Person) -> None:
    for name in ("is_admin", "user_id", "privileged", "volumes", "id"):
        assert refusal(anna, **{name: 1}) == (422, "unknown_field")
    assert refusal(anna, snapshot=a_snapshot(state="ended")) == (422, "unknown_field")
    assert anna.get("/me").json["admin"] is False


def test_texts_that_are_too_short_or_too_long_are_refused(anna: Person) -> None:
    bad = [
        {"key": ""},
        {"key": "k" * 65},
        {"title": " "},
        {"title": "t" * 201},
        {"command": ""},
        {"command": "x" * (128 * 1024 + 1)},
        {"command": "a\0b"},
        {"snapshot": a_snapshot(branch="b" * 201)},
        {"request": "2:[8:"},
        {"request": "x" * 5000},
    ]
    assert {refusal(anna, **fields)[0] for fields in bad} == {422}


def test_texts_that_a_database_cannot_store_are_refused(anna: Person) -> None:
    bad: list[dict[str, Any]] = [
        {field: text} if field != "branch" else {"snapshot": a_snapshot(branch=text)}
        for field in ("key", "title", "command", "branch")
        for text in ("a\0b", "a\ud800b")
    ]
    answers = {str(fields): anna.post("/jobs", json=a_submission(**fields)).status_code for fields in bad}
    assert set(answers.values()) == {422}, answers


@pytest.mark.threat("S45")
def test_unusual_texts_are_stored_unchanged(anna: Person) -> None:
    for title in ("; rm -rf /", "$(id)", "{{7*7}}", "%s", "\u202eabc", "a\nb", "<script>", "Ünïcode 🦉"):
        assert anna.job(anna.submit(title=title))["title"] == title


def test_a_syntax_error_in_the_request_is_shown_with_a_caret(anna: Person) -> None:
    message = anna.post("/jobs", json=a_submission(request="[a100:2]")).json["message"]
    assert "the count comes first" in message
    assert "^" in message


@pytest.mark.threat("S21")
def test_invalid_hashes_are_refused(anna: Person) -> None:
    for text in (
        "--upload-pack=x",
        "HEAD",
        "refs/heads/main",
        "@{-1}",
        "a" * 39,
        "a" * 41,
        "A" * 40,
        "a" * 40 + "\n",
        "",
    ):
        snapshot = a_snapshot(commit=text, remote="https://git.example.org/x.git")
        assert refusal(anna, snapshot=snapshot) == (422, "bad_hash"), text
        assert refusal(anna, snapshot=a_snapshot(tree=text)) == (422, "bad_hash"), text
        for field in ("committed", "base"):
            assert refusal(anna, snapshot=a_snapshot(**{field: text})) == (422, "bad_hash"), text
    for text in ("../../etc/passwd", "a" * 63, "A" * 64):
        assert refusal(anna, snapshot=a_snapshot(pack=text)) == (422, "bad_hash"), text


def test_a_snapshot_without_objects_is_refused(anna: Person) -> None:
    assert refusal(anna, snapshot=a_snapshot(tree=HASH)) == (422, "no_objects")
    assert refusal(anna, snapshot=a_snapshot(tree=HASH, base=HASH)) == (422, "no_objects")


def test_a_request_that_the_cluster_cannot_fulfil_is_refused_with_a_reason(anna: Person) -> None:
    answer = anna.post("/jobs", json=a_submission(request="[8:a100]"))
    assert answer.status_code == 422
    assert (
        answer.json["message"]
        == "[8:a100] cannot be fulfilled: a process needs 8 a100, no node has more than 4"
    )
    assert "pit show nodes" in answer.json["hint"]


def test_an_unknown_job_cannot_be_continued(anna: Person) -> None:
    assert refusal(anna, continues=999) == (404, "no_such_job")


def test_a_python_environment_is_part_of_the_order_and_a_senseless_one_is_refused(
    anna: Person, node: Worker, a_placed_job: Callable[..., int]
) -> None:
    a_placed_job(venv="uv.lock", python="3.12")
    (order,) = node.orders().values()
    assert order.spec is not None and order.spec.venv == Venv("uv.lock", "3.12", "anna")
    assert refusal(anna, venv="../uv.lock") == (422, "bad_venv")
    assert refusal(anna, venv="uv.lock", python="2; rm") == (422, "bad_python")
    assert refusal(anna, python="3.12") == (422, "bad_python")


def test_a_job_that_has_not_ended_cannot_be_continued(anna: Person) -> None:
    number = anna.submit()
    answer = anna.post("/jobs", json=a_submission(continues=number))
    assert (answer.status_code, answer.json["message"]) == (409, f"job {number} is still preparing")
    anna.stop(number)
    assert anna.job(anna.submit(continues=number))["options"]["continues"] == number


def test_a_submission_that_names_a_missing_upload_is_refused(
    a_user: Callable[..., Person], anna: Person
) -> None:
    name = a_user("berta").upload(b"hers")
    assert refusal(anna, snapshot=a_snapshot(tree=HASH, pack=name)) == (409, "no_such_upload")
    anna.upload(b"hers")
    anna.submit(snapshot=a_snapshot(tree=HASH, pack=name))


def test_a_submission_has_a_snapshot_or_a_job_to_rerun(anna: Person) -> None:
    number = anna.submit()
    assert refusal(anna, snapshot=None) == (422, "bad_field")
    assert refusal(anna, reruns=number) == (422, "bad_field")
    assert refusal(anna, snapshot=None, reruns=999) == (404, "no_such_job")
