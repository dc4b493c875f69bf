"""Beats as bytes: unpacking inverts packing, and refuses everything else."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pit_protocol.messages.beat import MAX_CHUNK, Beat, ChunkHead, Report, pack_beat, unpack_beat
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
def test_unpacking_inverts_packing(sent: list[Report], chunks: list[bytes], at: float) -> None:
    heads = tuple(ChunkHead(1, 1, 0, len(chunk), at) for chunk in chunks)
    beat = Beat(3, "boot", 17, 5.0, tuple(sent), heads)
    assert unpack_beat(pack_beat(beat, chunks)) == (beat, chunks)


@given(st.binary(max_size=200))
@example(b"")
@example(b"\0\0\0\0")
@example(framed(b"null"))
@example(framed(b"[]"))
@example(framed(b'"\xff"'))
@example(b"\xff\xff\xff\xff{}")
def test_bytes_that_are_not_a_beat_are_refused(body: bytes) -> None:
    with pytest.raises(Problem):
        unpack_beat(body)


@given(st.binary(max_size=60))
def test_trailing_bytes_are_refused(tail: bytes) -> None:
    body = pack_beat(a_beat(ChunkHead(1, 1, 0, 3, 0.0)), [b"abc"])
    if not tail:
        assert unpack_beat(body)[1] == [b"abc"]
        return
    with pytest.raises(Problem, match="the beat has"):
        unpack_beat(body + tail)


@given(st.integers(0, 120))
def test_a_truncated_beat_is_refused(length: int) -> None:
    body = pack_beat(a_beat(ChunkHead(1, 1, 0, 3, 0.0)), [b"abc"])
    with pytest.raises(Problem):
        unpack_beat(body[: min(length, len(body) - 1)])


@pytest.mark.parametrize("length", [0, -1, -(2**40), MAX_CHUNK + 1])
def test_an_empty_or_too_large_chunk_is_refused(length: int) -> None:
    with pytest.raises(Problem, match="out of bounds"):
        unpack_beat(pack_beat(a_beat(ChunkHead(1, 1, 0, length, 0.0)), []))


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(Problem):
        unpack_beat(framed(b"[" * 100_000))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400])
def test_a_time_that_is_not_finite_is_refused(number: str) -> None:
    head = json.dumps({"epoch": 1, "boot_id": "b", "seen": 0, "wait_s": 0}).replace(
        '"wait_s": 0', f'"wait_s": {number}'
    )
    with pytest.raises(Problem):
        unpack_beat(framed(head.encode()))
