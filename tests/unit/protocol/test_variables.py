"""Which environment variables users may set."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pit_protocol.messages.beat import ProcessSpec
from pit_protocol.messages.submission import Submission
from pit_protocol.problem import Problem
from pit_protocol.variables import MAX_BYTES, MAX_VARIABLES, check_job_variables, check_variables
from pit_protocol.wire import from_json
from pit_worker.spool.environment import exports


def refusal(variables: dict[str, str]) -> str:
    with pytest.raises(Problem) as caught:
        check_variables(variables)
    assert (caught.value.code, caught.value.status) == ("bad_variable", 422)
    return f"{caught.value.message}; {caught.value.hint}"


def test_names_used_by_shells_and_libraries_are_allowed() -> None:
    check_variables(
        {"LR": "0.1", "_x9": "", "PATH": "/opt/bin", "LD_PRELOAD": "x.so", "NVIDIA_TF32_OVERRIDE": "0"}
    )


@pytest.mark.parametrize("name", ["", "9a", "a-b", "a b", "ä", "A=B", "A\n", "x" * 101])
def test_an_invalid_name_is_refused(name: str) -> None:
    assert "is not a valid variable name" in refusal({name: "S3CRET"})


@pytest.mark.parametrize(
    "name",
    ["JOB_DIR", "RANK", "HOME", "HOST_GROUP0_PROCESS1", "ML_GROUP_DIR", "PIT_COOKIE", "CUDA_VISIBLE_DEVICES"],
)
def test_names_that_pit_sets_are_refused(name: str) -> None:
    assert refusal({name: "S3CRET"}) == f"{name} is set by pit itself; choose another name"


@pytest.mark.parametrize("name", ["UID", "PPID", "OPTIND", "SHELLOPTS"])
def test_names_reserved_by_the_shell_are_refused(name: str) -> None:
    assert refusal({name: "1"}).startswith(f"{name} is reserved by the shell")


def test_the_error_names_the_limit() -> None:
    check_variables({"A": "x" * (MAX_BYTES - 1)})
    assert refusal({"A": "x" * MAX_BYTES}).startswith(
        "the variables of a job can have at most 65,536 bytes in total, not 65,537"
    )
    check_variables({f"A{i}": "" for i in range(MAX_VARIABLES)})
    assert refusal({f"A{i}": "" for i in range(MAX_VARIABLES + 1)}).startswith(
        "a job can have at most 100 variables, not 101"
    )


@pytest.mark.threat("S46")
def test_plain_and_secret_variables_share_the_limits() -> None:
    with pytest.raises(Problem, match="at most 100 variables, not 101"):
        check_job_variables({f"A{i}": "" for i in range(MAX_VARIABLES)}, {"B": ""})


@pytest.mark.parametrize("name", ["KEY", "aws_secret_access_key", "HF_TOKEN", "Password", "CLIENT_SECRET"])
def test_a_secret_must_not_be_plain(name: str) -> None:
    check_job_variables({}, {name: "S3CRET"})
    with pytest.raises(Problem, match=f"{name} looks like a secret") as caught:
        check_job_variables({name: "S3CRET"}, {})
    assert "S3CRET" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("name", ["MAX_TOKENS", "KEYS", "TOKENIZER", "PASSWORD_FILE"])
def test_a_name_that_only_contains_such_a_word_may_be_plain(name: str) -> None:
    check_job_variables({name: "1"}, {})


@pytest.mark.parametrize("value", ["S3CRET\0", "S3CRET\udcff"])
def test_no_error_shows_a_value(value: str) -> None:
    assert (
        refusal({"TOKEN": value})
        == "the value of TOKEN is not valid text: it contains NUL or a lone surrogate; "
    )


def test_neither_a_type_error_nor_a_repr_shows_a_value() -> None:
    body = {"key": "k", "title": "t", "request": "[]"}
    for variables in ({"PIN": 5308417}, "5308417", [5308417]):
        with pytest.raises(Problem) as caught:
            from_json(Submission, {**body, "variables": variables})
        assert caught.value.message.startswith("field 'variables")
        assert "5308417" not in caught.value.message
    assert "5308417" not in repr(Submission("k", "t", "[]", variables={"PIN": "5308417"}))
    spec = ProcessSpec(1, 0, 0, 0, "", {}, {}, "", 1.0, variables={"PIN": "5308417"})
    assert "5308417" not in repr(spec)


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_shell_reads_any_value_unchanged(value: str) -> None:
    words = ["/bin/sh", "-c", 'eval "$(cat)"; printf %s "$A"']
    read = subprocess.run(words, input=exports({"A": value}).encode(), capture_output=True, check=True)
    assert (read.stdout, read.stderr) == (value.encode(), b"")
