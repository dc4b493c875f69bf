"""What elements leave in their result files becomes a table; bad contents are a line in the log."""

from pathlib import Path
from typing import Any

import pytest

from pit_protocol.arrays.numbers import element_number
from pit_server.context import Head
from tests.head.jobs.test_arrays import AnArray, an_array, end, indices
from tests.support.clusters.head import ONE_DATABASE, Person, Worker

__all__ = ["an_array"]  # a fixture


def result_file(head: Head, number: int, index: int) -> Path:
    return head.data.attempt(element_number(number, index), 1) / "result"


def rows(anna: Person, number: int | str) -> dict[int | None, dict[str, Any]]:
    found = anna.ok(anna.get(f"/jobs/{number}/elements"))["elements"]
    return {row["index"]: row for row in found}


def test_results_of_elements_are_a_table(head: Head, node: Worker, anna: Person, an_array: AnArray) -> None:
    number = an_array(None, sweep=["lr=1e-3,1e-4"])
    head.scheduling()
    orders = indices(node)
    result_file(head, number, 0).write_text("loss=0.5\nname = adam\n")
    result_file(head, number, 1).write_text('{"loss": NaN, "steps": 7, "ok": true}')
    for index, order in orders.items():
        end(node, order, exit_code=index)
    found = rows(anna, number)
    assert found[0]["results"] == {"loss": 0.5, "name": "adam"}
    assert found[1]["results"] == {"loss": "nan", "steps": 7, "ok": True}
    assert found[1]["sweep"] == {"lr": "1e-4"}
    assert rows(anna, f"{number}.1")[1]["outcome"] == "failed"


@ONE_DATABASE
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"a": ', "it is not valid JSON: Expecting value: line 1 column 6 (char 5)"),
        ('{"a": [1]}', "the value of a is neither a number nor a text"),
        ('{"a b": 1}', "'a b' is not a valid name"),
        ("loss=1\ndone", "the line 'done' is not NAME=VALUE"),
        ("x=" + "y" * 20_000, "it has more than 16 KiB (`max_result_kib` of the head)"),
        ("\n".join(f"n{i}=1" for i in range(101)), "it has 101 names, and 100 are allowed"),
    ],
)
def test_a_bad_result_is_a_line_in_the_log_and_no_failure(
    head: Head, node: Worker, anna: Person, an_array: AnArray, content: str, why: str
) -> None:
    number = an_array("0")
    head.scheduling()
    (order,) = indices(node).values()
    result_file(head, number, 0).write_text(content)
    end(node, order)
    assert anna.job(number)["outcome"] == "succeeded"
    assert rows(anna, number)[0]["results"] == {}
    text = f"the result of job {number}.0 is not a table: {why}"
    for name in (number, f"{number}.0"):
        assert text in [line["text"] for line in anna.log(name)["lines"]]  # type: ignore[arg-type]


@ONE_DATABASE
def test_a_text_for_people_and_a_link_are_no_results(
    head: Head, node: Worker, anna: Person, an_array: AnArray, tmp_path: Path
) -> None:
    number = an_array("0-1")
    head.scheduling()
    orders = indices(node)
    result_file(head, number, 0).write_text("loss 0.7")
    secret = tmp_path / "secret"
    secret.write_text("a=1")
    result_file(head, number, 1).symlink_to(secret)
    for order in orders.values():
        end(node, order)
    assert [row["results"] for row in rows(anna, number).values()] == [{}, {}]
    assert not [line for line in anna.log(number)["lines"] if "result" in line["text"]]


@ONE_DATABASE
def test_a_job_that_is_no_array_has_one_row(
    head: Head, node: Worker, anna: Person, a_placed_job: Any
) -> None:
    number = a_placed_job(with_tree=True)
    (order,) = node.orders().values()
    (head.data.attempt(number, 1) / "result").write_text("loss=1")
    end(node, order)
    assert rows(anna, number)[None]["results"] == {"loss": 1}
