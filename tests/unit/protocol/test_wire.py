"""Messages are checked field by field."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from pit_protocol.messages.beat import Order, OrderAction, ProcessSpec, Report
from pit_protocol.messages.submission import Submission
from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy, ProcessState
from pit_protocol.wire import Float, Int, Message, from_json, to_json


class Small(Message, frozen=True):
    count: Int
    share: Float = 0.5
    name: str | None = None
    flag: bool = False
    items: tuple[Int, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)
    action: OrderAction = OrderAction.RUN


def problem_of(kind: type, body: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        from_json(kind, body)
    assert caught.value.status == 422
    return caught.value


def a_spec() -> ProcessSpec:
    return ProcessSpec(
        job=7, rank=1, group=0, index=1, command=None, env={"A": "ä"}, paths={"SRC_DIR": "x"}, hostfile="h\n",
        grace_s=10.0, cpus=0.5, units=("GPU-1",),
    )  # fmt: skip


@pytest.mark.parametrize(
    "message",
    [
        Small(3, 1.5, "x", True, (1, 2), {"a": "b"}, OrderAction.STOP),
        Order(5, 1, OrderAction.RUN, 17, None, a_spec()),
        Order(5, 1, OrderAction.STOP, killed_by=KilledBy.USER),
        Report(5, 1, ProcessState.ENDED, 10, exit_code=-1, signal=9, killed_by=KilledBy.JOB, reason="x"),
    ],
)
def test_decoding_inverts_encoding(message: Any) -> None:
    assert from_json(type(message), json.loads(json.dumps(to_json(message)))) == message


def test_a_field_with_a_default_is_optional() -> None:
    assert from_json(Small, {"count": 1}) == Small(1)


def test_an_integer_is_a_valid_float() -> None:
    assert from_json(Small, {"count": 1, "share": 2}).share == 2.0


def test_an_unknown_field_is_refused_by_name() -> None:
    problem = problem_of(Small, {"count": 1, "is_admin": True})
    assert (problem.code, problem.message) == ("unknown_field", "unknown field 'is_admin'")
    assert "count" in problem.hint


def test_a_nested_unknown_field_is_refused() -> None:
    body = {
        "key": "k",
        "title": "t",
        "request": "[]",
        "snapshot": {"tree": "x", "commit": None, "privileged": 1},
    }
    assert problem_of(Submission, body).code == "unknown_field"


def test_a_missing_field_is_named_with_its_path() -> None:
    assert problem_of(Small, {}).message == "field 'count' is missing"
    body = {"key": "k", "title": "t", "request": "[]", "snapshot": {"commit": None, "remote": None}}
    assert problem_of(Submission, body).message == "field 'snapshot.tree' is missing"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("count", "1", "must be int, not str"),
        ("count", True, "must be int, not bool"),
        ("count", 1.5, "must be int, not float"),
        ("count", None, "must be int, not null"),
        ("share", "much", "must be float"),
        ("share", False, "must be float"),
        ("name", 5, "must be str"),
        ("flag", 1, "must be bool"),
        ("items", {"a": 1}, "must be a list"),
        ("items", [1, "x"], "field 'items[1]' must be int"),
        ("texts", ["a"], "must be an object"),
        ("texts", {"a": 1}, "field 'texts[...]' must be str"),
        ("action", "fly", "must be run or stop or forget"),
        ("action", [], "must be run or stop or forget"),
    ],
)
def test_a_field_of_the_wrong_type_is_named_with_the_right_one(name: str, value: Any, words: str) -> None:
    assert words in problem_of(Small, {"count": 1, name: value}).message


@pytest.mark.parametrize("body", [None, [], "text", 5, True])
def test_anything_but_an_object_is_refused(body: Any) -> None:
    assert problem_of(Small, body).code == "bad_field"


def test_no_error_shows_a_value_because_it_may_be_secret() -> None:
    assert "hunter2" not in problem_of(Small, {"count": "hunter2"}).message


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), float("-inf"), 10**400], ids=lambda number: str(number)[:9]
)
def test_nan_and_infinity_are_refused(number: float) -> None:
    assert problem_of(Small, {"count": 1, "share": number}).code == "bad_field"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(Small.__struct_fields__, json_values)))
def test_any_input_gives_a_message_or_a_problem(body: dict[str, Any]) -> None:
    try:
        assert isinstance(from_json(Small, body), Small)
    except Problem as problem:
        assert problem.status == 422


# The type of a field is found out at the first decoding, here while another thread decodes, too.
DECODE_TWICE_AT_ONCE = """
import threading
from pit_protocol.wire import Message, decode

begun, over = threading.Event(), threading.Event()

def find_type():
    begun.set()
    over.wait(0.3)
    return int

class Inner(Message, frozen=True):
    number: "find_type()"

class Outer(Message, frozen=True):
    inner: Inner

def read():
    assert decode(Outer, b'{"inner": {"number": 1}}').inner.number == 1

first = threading.Thread(target=read)
first.start()
begun.wait()
read()
over.set()
first.join()
"""


def test_two_threads_decode_the_first_message_of_a_kind() -> None:
    """In a process of its own, because msgspec crashed."""
    done = subprocess.run([sys.executable, "-c", DECODE_TWICE_AT_ONCE], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
