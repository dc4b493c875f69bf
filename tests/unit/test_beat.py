"""Beats as bytes: what was packed is unpacked, and nothing else is."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pit_protocol.beat import MAX_CHUNK, Beat, ChunkHead, Report, pack_beat, unpack_beat
from pit_protocol.problem import Problem
from pit_protocol.states import KilledBy, ProcessState

ids = st.integers(0, 2**40)
times = st.floats(0, 1e10)
reports = st.builds(
    Report,
    process=ids,
    attempt=st.integers(1, 9),
    state=st.sampled_from(ProcessState),
    log_size=ids,
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    killed_by=st.none() | st.sampled_from(KilledBy),
    reason=st.text(max_size=20),
    started_at=st.none() | times,
    ended_at=st.none() | times,
)
bodies = st.lists(st.binary(min_size=1, max_size=50), max_size=4)


def a_beat(*heads: ChunkHead) -> Beat:
    return Beat(epoch=1, boot_id="b", seen=0, chunks=heads)


def framed(head: bytes, rest: bytes = b"") -> bytes:
    return len(head).to_bytes(4, "big") + head + rest


@given(st.lists(reports, max_size=4), bodies, times)
def test_a_beat_comes_back_as_it_went(told: list[Report], chunks: list[bytes], at: float) -> None:
    heads = tuple(ChunkHead(1, 1, 0, len(chunk), at) for chunk in chunks)
    beat = Beat(3, "boot", 17, 5.0, tuple(told), heads)
    assert unpack_beat(pack_beat(beat, chunks)) == (beat, chunks)


@given(st.binary(max_size=200))
@example(b"")
@example(b"\0\0\0\0")
@example(framed(b"null"))
@example(framed(b"[]"))
@example(framed(b'"\xff"'))
@example(b"\xff\xff\xff\xff{}")
def test_bytes_that_are_no_beat_are_a_problem(body: bytes) -> None:
    with pytest.raises(Problem):
        unpack_beat(body)


@given(st.binary(max_size=60))
def test_a_beat_with_bytes_behind_it_is_a_problem(tail: bytes) -> None:
    body = pack_beat(a_beat(ChunkHead(1, 1, 0, 3, 0.0)), [b"abc"])
    if not tail:
        assert unpack_beat(body)[1] == [b"abc"]
        return
    with pytest.raises(Problem, match="the beat has"):
        unpack_beat(body + tail)


@given(st.integers(0, 120))
def test_a_beat_cut_short_is_a_problem(length: int) -> None:
    body = pack_beat(a_beat(ChunkHead(1, 1, 0, 3, 0.0)), [b"abc"])
    with pytest.raises(Problem):
        unpack_beat(body[: min(length, len(body) - 1)])


@pytest.mark.parametrize("length", [0, -1, -(2**40), MAX_CHUNK + 1])
def test_a_chunk_of_no_or_too_many_bytes_is_a_problem(length: int) -> None:
    with pytest.raises(Problem, match="out of bounds"):
        unpack_beat(pack_beat(a_beat(ChunkHead(1, 1, 0, length, 0.0)), []))


def test_a_head_nested_deeper_than_any_beat_is_a_problem() -> None:
    with pytest.raises(Problem):
        unpack_beat(framed(b"[" * 100_000))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_a_time_that_is_no_number_is_a_problem(number: str) -> None:
    head = json.dumps({"epoch": 1, "boot_id": "b", "seen": 0, "wait_s": 0}).replace(
        '"wait_s": 0', f'"wait_s": {number}'
    )
    with pytest.raises(Problem):
        unpack_beat(framed(head.encode()))
