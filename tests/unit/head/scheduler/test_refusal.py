"""Requests that even an idle cluster cannot fulfil are refused with a reason."""

import pytest

from pit_grammar import parse
from pit_server.scheduler.explain import refusal_reason
from tests.support.scheduling import a_view

CLUSTER = (
    a_view("n0", a100=4, cpu=8, mem=16, slots=8),
    a_view("n1", a100=2, h100=2, cpu=16, mem=32, slots=8, labels="rack=r1"),
    a_view("n2", cpu=1, mem=1, slots=0, labels="rack=r2"),
)


@pytest.mark.parametrize(
    ("request_text", "reason"),
    [
        ("[v100]", "[v100] cannot be fulfilled: no node has v100; the cluster has a100, h100"),
        ("[8:a100]", "[8:a100] cannot be fulfilled: a process needs 8 a100, no node has more than 4"),
        ("4:[2:a100]", "4:[2:a100] cannot be fulfilled: it needs 8 a100, all nodes together have 6"),
        ("[]@n7", "[]@n7 cannot be fulfilled: there is no node @n7"),
        ("[]@rack=r9", "[]@rack=r9 cannot be fulfilled: there is no node @rack=r9"),
        ("[h100]@n0", "[h100]@n0 cannot be fulfilled: n0 has no h100; there is a100"),
        ("[gpu]@n2", "[gpu]@n2 cannot be fulfilled: n2 has no GPU"),
        ("[gpu]@rack=r2", "[gpu]@rack=r2 cannot be fulfilled: no node @rack=r2 has a GPU"),
        (
            "[17:cpu]",
            "[17:cpu] cannot be fulfilled: no node is that large; the largest have 16 cores and 32.0 GiB",
        ),
        ("17:[]", "17:[] cannot be fulfilled: it has 17 processes, and the nodes run at most 16 at a time"),
        ("4:[a100],[4:a100]", "4:[a100],[4:a100] is more than all nodes together have"),
    ],
)
def test_an_impossible_request_is_refused_with_the_reason(request_text: str, reason: str) -> None:
    assert refusal_reason(parse(request_text), CLUSTER) == reason


@pytest.mark.parametrize(
    "request_text",
    ["[]", "16:[]", "3:[2:a100]", "6:[a100],[2:h100]", "[6:gpu]", "1-99:[a100]", "[1-99:a100]"],
)
def test_a_request_that_fits_an_idle_cluster_is_accepted(request_text: str) -> None:
    views = (*CLUSTER, a_view("n3", v100=6, slots=8))
    assert refusal_reason(parse(request_text), views) == ""


def test_a_cluster_without_nodes_says_so() -> None:
    assert refusal_reason(parse("[]"), []) == "no node has joined the cluster yet"


def test_a_cluster_without_gpus_says_so() -> None:
    reason = refusal_reason(parse("[gpu]"), [a_view("n0")])
    assert reason == "[gpu] cannot be fulfilled: no node has a GPU"


def test_a_request_that_fits_only_if_named_kinds_go_first_is_accepted() -> None:
    assert refusal_reason(parse("[2:gpu],[2:a100]"), [a_view(a100=2, h100=2)]) == ""


def test_a_request_that_fits_only_if_pinned_groups_go_first_is_accepted() -> None:
    views = a_view("n0", a100=2, labels="rack=r1"), a_view("n1", a100=4, labels="rack=r1")
    assert refusal_reason(parse("[2:a100]@rack=r1,[a100]@n0"), views) == ""
