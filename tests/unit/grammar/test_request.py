"""The request language: the meaning of expressions, and formatting as the inverse of parsing."""

import random
import re
import string
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pit_grammar import Count, Need, Placement, ProcessGroup, Request, RequestError, parse

ONE = Count(1, 1)
README = Path(__file__).parents[3] / "grammar" / "README.md"


def gpus(kind: str, low: int, high: int | None = None) -> Need:
    return Need(kind, Count(low, high or low))


MEANINGS = {
    "[]": [ProcessGroup(ONE)],
    "[2:gtx1070]": [ProcessGroup(ONE, (gpus("gtx1070", 2),))],
    "2:[gtx1070]": [ProcessGroup(Count(2, 2), (gpus("gtx1070", 1),))],
    "2:[8:gtx1070]": [ProcessGroup(Count(2, 2), (gpus("gtx1070", 8),))],
    "2:[],4:[gtx1070,2:gtx1060]": [
        ProcessGroup(Count(2, 2)),
        ProcessGroup(Count(4, 4), (gpus("gtx1070", 1), gpus("gtx1060", 2))),
    ],
    "[gpu]": [ProcessGroup(ONE, (gpus("gpu", 1),))],
    "[4:cpu,16:mem]": [ProcessGroup(ONE, (Need("cpu", Decimal(4)), Need("mem", Decimal(16))))],
    "[0.5:cpu,1.5:mem]": [ProcessGroup(ONE, (Need("cpu", Decimal("0.5")), Need("mem", Decimal("1.5"))))],
    "[2:a100]@n0": [ProcessGroup(ONE, (gpus("a100", 2),), Placement("n0"))],
    "2:[a100]@rack=r9": [ProcessGroup(Count(2, 2), (gpus("a100", 1),), Placement("rack", "r9"))],
    "[2-4:a100]": [ProcessGroup(ONE, (gpus("a100", 2, 4),))],
    "2-8:[a100]": [ProcessGroup(Count(2, 8), (gpus("a100", 1),))],
}


@pytest.mark.parametrize("text", MEANINGS)
def test_an_expression_of_the_table_parses_to_its_meaning(text: str) -> None:
    assert parse(text) == Request(tuple(MEANINGS[text]))


@pytest.mark.parametrize("text", MEANINGS)
def test_an_expression_of_the_table_is_its_own_canonical_form(text: str) -> None:
    assert str(parse(text)) == text


def test_the_readme_shows_exactly_these_expressions() -> None:
    assert re.findall(r"^\| `([^`]*\[[^`]*)` \|", README.read_text(), re.MULTILINE) == list(MEANINGS)


CANONICAL = {
    " 2 :\n[ 8 : a100 , 4 : cpu ]\t@ rack = r9 \r\n": "2:[8:a100,4:cpu]@rack=r9",
    "1:[1:a100]": "[a100]",
    "1-1:[2-2:a100]": "[2:a100]",
    "007:[]": "7:[]",
    "[1.0:cpu,0.50:mem]": "[cpu,0.5:mem]",
    "[10:cpu,100:mem]": "[10:cpu,100:mem]",
    "[0.0009765625:mem]": "[0.0009765625:mem]",
    "[GeForceGTX1070,CPU]": "[geforcegtx1070,cpu]",
    "[A100]@Node.7-b_C": "[a100]@Node.7-b_C",
    "[A100]@Rack=R9": "[a100]@Rack=R9",
    "[a100]@tier=2": "[a100]@tier=2",
    "[nvidia-a100-sxm4-80gb]": "[nvidia-a100-sxm4-80gb]",
    "[a100,a100]": "[2:a100]",
    "[a100,v100,1-2:A100]": "[2-3:a100,v100]",
    "[cpu,0.5:CPU]": "[1.5:cpu]",
    "2:[gtx1070],[gtx1070]": "2:[gtx1070],[gtx1070]",
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_a_request_has_one_canonical_form(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical
    assert parse(canonical) == parse(text)


def test_two_groups_are_not_one_larger_group() -> None:
    assert parse("2:[gtx1070],[gtx1070]") != parse("3:[gtx1070]")


def test_equal_requests_have_equal_hashes() -> None:
    assert len({parse("[A100,0.50:cpu]"), parse(" [ 1:a100 , 0.5:cpu ] ")}) == 1


def test_processes_are_added_up_over_the_groups() -> None:
    request = parse("2-8:[a100],[],3:[cpu]")
    assert (request.min_processes, request.max_processes) == (6, 12)


def test_cores_are_in_thousandths_and_memory_in_mib() -> None:
    group = parse("[0.125:cpu,1.5:mem,a100]").groups[0]
    assert (group.cpu_milli, group.memory_mib) == (125, 1536)


def test_cores_and_memory_that_were_not_requested_are_none() -> None:
    group = parse("[a100]").groups[0]
    assert (group.cpu_milli, group.memory_mib) == (None, None)


def test_gpus_are_the_needs_that_are_neither_cpu_nor_mem() -> None:
    needs = parse("[2-4:a100,cpu,gpu,mem]").groups[0].gpus
    assert [(need.kind, need.low, need.high) for need in needs] == [("a100", 2, 4), ("gpu", 1, 1)]


def test_a_node_name_allows_only_that_node() -> None:
    assert Placement("n0").allows("n0", {})
    assert not Placement("n0").allows("n1", {"n0": "n0"})


def test_a_label_allows_the_nodes_with_its_value() -> None:
    assert Placement("rack", "r9").allows("n0", {"rack": "r9"})
    assert not Placement("rack", "r9").allows("rack", {"rack": "r8"})
    assert not Placement("rack", "r9").allows("rack", {})


def test_a_process_group_names_each_kind_once() -> None:
    with pytest.raises(ValueError, match="each kind once"):
        ProcessGroup(ONE, (gpus("a100", 1), gpus("A100", 1)))


def test_a_gpu_has_no_fraction_and_a_core_no_count() -> None:
    with pytest.raises(TypeError):
        Need("a100", Decimal(1))
    with pytest.raises(TypeError):
        Need("cpu", ONE)


def test_a_request_without_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Request(())


def test_importing_the_package_does_not_import_lark() -> None:
    code = "import sys, pit_grammar; sys.exit('lark' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(README.parent)}).returncode == 0
    )


letters = string.ascii_letters
values = st.builds(
    str.__add__,
    st.sampled_from(letters + string.digits),
    st.text(letters + string.digits + "._-", max_size=8),
)
names = values.filter(lambda value: value[0] in letters)
counts = st.tuples(st.integers(1, 999), st.integers(0, 9)).map(lambda pair: Count(pair[0], sum(pair)))
kinds = names.filter(lambda name: name.lower() not in ("cpu", "mem"))
measured = st.one_of(
    st.builds(Need, st.just("cpu"), st.integers(1, 10**8).map(lambda milli: Decimal(milli) / 1000)),
    st.builds(Need, st.just("mem"), st.integers(1, 102_400_000).map(lambda mib: Decimal(mib) / 1024)),
)
needs = st.lists(
    st.one_of(st.builds(Need, kinds, counts), measured), max_size=4, unique_by=lambda need: need.kind
)
placements = st.none() | st.builds(Placement, names, st.none() | values)
groups = st.builds(ProcessGroup, counts, needs.map(tuple), placements)
requests = st.lists(groups, min_size=1, max_size=4).map(lambda items: Request(tuple(items)))


@given(requests)
@settings(deadline=None, database=None)
def test_formatting_is_the_inverse_of_parsing(request: Request) -> None:
    text = str(request)
    assert parse(text) == request
    assert str(parse(text)) == text
    assert hash(parse(text)) == hash(request)


PIECES = [*"[]:,@=-. 0129acgpumeM_\n\t", "2:", "cpu", "mem", "a100", "0.5", "@n0", "[2:a100]", "4-2"]
ODD = [*'\x00\x7f\xa0²٣２Ａéß\u0130\u200b\u202e\ud800😀"\\(*%', "9" * 30]


def _random_text(rng: random.Random) -> str:
    pieces = PIECES if rng.random() < 0.8 else PIECES + ODD
    noise = "".join(rng.choices(pieces, k=rng.randrange(8)))
    return noise if rng.random() < 0.7 else _mutated(rng.choice(list(MEANINGS)), noise[:2], rng)


def _mutated(text: str, noise: str, rng: random.Random) -> str:
    start = rng.randrange(len(text) + 1)
    return text[:start] + noise + text[start + rng.randrange(3) :]


def test_random_texts_raise_only_request_errors() -> None:
    rng = random.Random(20)
    accepted = 0
    for _ in range(100_000):
        text = _random_text(rng)
        try:
            request = parse(text)
        except RequestError as error:
            assert 1 <= error.column <= len(text) + 1, text
        else:
            accepted += 1
            assert parse(str(request)) == request, text
    assert accepted > 1000


HOSTILE = {
    "open brackets": "[" * 100_000,
    "counts": "1:" * 50_000,
    "digits": "9" * 100_000,
    "blanks": " " * 100_000,
    "groups": "[]," * 33_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hundred_kilobytes_are_refused_within_milliseconds(text: str) -> None:
    parse("[]")
    start = time.thread_time()
    with pytest.raises(RequestError, match="characters; put equal processes into one group"):
        parse(text)
    assert time.thread_time() - start < 0.05


def test_kinds_can_be_renamed() -> None:
    request = parse("2:[a100,2:cheap],[gpu]@n0")
    assert request.kinds == {"a100", "cheap", "gpu"}
    assert str(request.renamed({"cheap": "gtx1070"})) == "2:[a100,2:gtx1070],[gpu]@n0"
    assert str(request.renamed({"cheap": "a100"})) == "2:[3:a100],[gpu]@n0"
    assert request.renamed({"h100": "a100"}) is request
