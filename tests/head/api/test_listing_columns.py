"""Lists of jobs with run time, result and variables."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import update

from pit_server.context import Head
from pit_server.db.models import Process
from tests.support.clusters.head import NOW, ONE_DATABASE, Person, Worker, ended


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


def row(who: Person, number: int, columns: str = "") -> dict[str, Any]:
    listed = who.ok(who.get(f"/jobs?columns={quote(columns)}"))
    return next(job for job in listed["jobs"] if job["number"] == number)


def test_variables_are_listed_by_name_and_cut(worker: Worker, anna: Person) -> None:
    number = anna.submit(env={"LR": "0.1", "LONG": "ä" * 300, "QUOTED": '"a"'}, variables={"PIN": "S3CRET"})
    listed = row(anna, number, "env.LR,env.LONG,env.QUOTED,env.NONE,env.PIN")
    assert listed["env"] == {"LR": "0.1", "LONG": "ä" * 200, "QUOTED": '"a"'}
    assert listed["secrets"] == ["PIN"]
    assert row(anna, number)["env"] == {}


@ONE_DATABASE
def test_the_first_line_of_a_result_is_listed(
    head: Head, worker: Worker, anna: Person, a_waiting_job: Callable[..., int]
) -> None:
    number = a_waiting_job(with_tree=True)
    (head.data.attempt(number, 1) / "result").write_text("acc 0.9\nmore\n")
    assert row(anna, number, "result")["result"] == "acc 0.9"
    assert row(anna, number)["result"] is None


def test_the_run_time_is_from_the_first_start_to_the_last_end(
    head: Head, worker: Worker, anna: Person, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job("2:[]")
    assert row(anna, number)["run_s"] is None
    first, second = worker.orders()
    worker.beat(ended(first), ended(second))
    with head.database.write() as session:
        for process, start, end in ((first, 0, 5), (second, 2, 9)):
            times = {"started_at": NOW + start, "ended_at": NOW + end}
            session.execute(update(Process).where(Process.id == process).values(**times))
    assert row(anna, number)["run_s"] == 9


def test_a_running_job_has_run_until_now(
    head: Head, worker: Worker, anna: Person, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job("2:[]")
    with head.database.write() as session:
        session.execute(update(Process).where(Process.job_id == number).values(started_at=NOW))
    assert row(anna, number)["run_s"] > 1000


@ONE_DATABASE
@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ("colour", "unknown_column"),
        ("env.", "unknown_column"),
        ("env.a b", "unknown_column"),
        (",".join(f"env.A{i}" for i in range(21)), "too_many_columns"),
    ],
)
def test_other_columns_are_refused(worker: Worker, anna: Person, columns: str, code: str) -> None:
    answer = anna.get(f"/jobs?columns={quote(columns)}")
    assert (answer.status_code, answer.json["code"]) == (422, code)
