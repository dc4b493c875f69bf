"""Which variables a user may give his processes."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pit_protocol.beat import ProcessSpec
from pit_protocol.problem import Problem
from pit_protocol.submission import Submission
from pit_protocol.variables import MAX_BYTES, MAX_VARIABLES, check_variables
from pit_protocol.wire import from_json
from pit_worker.environment import exports


def refusal(variables: dict[str, str]) -> str:
    with pytest.raises(Problem) as caught:
        check_variables(variables)
    assert (caught.value.code, caught.value.status) == ("bad_variable", 422)
    return f"{caught.value.message}; {caught.value.hint}"


def test_names_of_shells_and_libraries_are_free() -> None:
    check_variables(
        {"LR": "0.1", "_x9": "", "PATH": "/opt/bin", "LD_PRELOAD": "x.so", "NVIDIA_TF32_OVERRIDE": "0"}
    )


@pytest.mark.parametrize("name", ["", "9a", "a-b", "a b", "ä", "A=B", "A\n", "x" * 101])
def test_what_is_no_name(name: str) -> None:
    assert "is no name of a variable" in refusal({name: "S3CRET"})


@pytest.mark.parametrize(
    "name",
    ["JOB_DIR", "RANK", "HOME", "HOST_GROUP0_PROCESS1", "ML_GROUP_DIR", "PIT_COOKIE", "CUDA_VISIBLE_DEVICES"],
)
def test_what_pit_sets_is_not_a_users(name: str) -> None:
    assert refusal({name: "S3CRET"}) == f"{name} is set by pit itself; choose another name"


@pytest.mark.parametrize("name", ["UID", "PPID", "OPTIND", "SHELLOPTS"])
def test_what_a_shell_would_stumble_over_is_refused(name: str) -> None:
    assert refusal({name: "1"}).startswith(f"{name} is the shell's own")


def test_bounds_are_told() -> None:
    check_variables({"A": "x" * (MAX_BYTES - 1)})
    assert refusal({"A": "x" * MAX_BYTES}).startswith(
        "a job's variables have at most 65,536 bytes together, not 65,537"
    )
    check_variables({f"A{i}": "" for i in range(MAX_VARIABLES)})
    assert refusal({f"A{i}": "" for i in range(MAX_VARIABLES + 1)}).startswith(
        "a job has at most 100 variables, not 101"
    )


@pytest.mark.parametrize("value", ["S3CRET\0", "S3CRET\udcff"])
def test_no_refusal_tells_a_value(value: str) -> None:
    assert refusal({"TOKEN": value}) == "the value of TOKEN is no text: it has a NUL or half a character; "


def test_neither_an_ill_typed_value_nor_a_repr_tells_one() -> None:
    body = {"key": "k", "title": "t", "request": "[]"}
    for variables in ({"PIN": 5308417}, "5308417", [5308417]):
        with pytest.raises(Problem) as caught:
            from_json(Submission, {**body, "variables": variables})
        assert caught.value.message == "field 'variables' is not what it must be"
    assert "5308417" not in repr(Submission("k", "t", "[]", variables={"PIN": "5308417"}))
    spec = ProcessSpec(1, 0, 0, 0, "", {}, {}, "", 1.0, variables={"PIN": "5308417"})
    assert "5308417" not in repr(spec)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_shell_reads_any_value_as_it_was(value: str) -> None:
    words = ["/bin/sh", "-c", 'eval "$(cat)"; printf %s "$A"']
    read = subprocess.run(words, input=exports({"A": value}).encode(), capture_output=True, check=True)
    assert (read.stdout, read.stderr) == (value.encode(), b"")
