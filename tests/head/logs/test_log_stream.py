"""Streams of output as files: every byte once, every line with its time."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pit_server.store.log_stream import MAX_LINE, STAMP, LogStream


@pytest.fixture
def stream(tmp_path: Path) -> LogStream:
    return LogStream(tmp_path / "logs", "1-0.0")


def texts(stream: LogStream, offset: int = 0, *, limit: int = 1 << 20, is_final: bool = True) -> list[bytes]:
    return [line.text for line in stream.lines(offset, limit, is_final=is_final)]


def content(tmp_path: Path) -> bytes:
    return (tmp_path / "logs/1-0.0.log").read_bytes()


def test_a_new_stream_is_empty(stream: LogStream) -> None:
    assert (stream.size(), texts(stream), stream.tail_offset(5), stream.offset_at(1.0)) == (0, [], 0, 0)
    stream.sync()


def test_lines_carry_the_time_at_which_they_began(stream: LogStream) -> None:
    stream.append(b"one\ntw", 10.0)
    stream.append(b"o\nthree\n", 20.0)
    assert [(line.at, line.text, line.end) for line in stream.lines(0, 100, is_final=False)] == [
        (10.0, b"one", 4),
        (10.0, b"two", 8),
        (20.0, b"three", 14),
    ]


def test_an_unterminated_last_line_is_shown_only_if_final(stream: LogStream) -> None:
    stream.append(b"one\ntw", 10.0)
    assert texts(stream, is_final=False) == [b"one"]
    assert texts(stream, is_final=True) == [b"one", b"tw"]


def test_empty_lines_and_binary_bytes_are_kept(stream: LogStream) -> None:
    stream.append(b"\n\n\xff\xfe\0\r\n", 10.0)
    assert texts(stream) == [b"", b"", b"\xff\xfe\0\r"]


def test_an_overlong_line_comes_in_pieces_without_waiting_for_its_end(stream: LogStream) -> None:
    stream.append(b"x" * (2 * MAX_LINE + 5), 10.0)
    assert [len(text) for text in texts(stream, is_final=False)] == [MAX_LINE, MAX_LINE]
    stream.append(b"\nnext\n", 11.0)
    assert [len(text) for text in texts(stream, 2 * MAX_LINE)] == [5, 4]


def test_a_head_killed_between_time_and_bytes_loses_nothing(stream: LogStream, tmp_path: Path) -> None:
    stream.append(b"one\n", 10.0)
    with (tmp_path / "logs/1-0.0.times").open("ab") as times:
        times.write(STAMP.pack(4, 15.0))
    stream.append(b"two\n", 20.0, offset=4)
    assert [line.text for line in stream.lines(0, 100, is_final=True)] == [b"one", b"two"]
    assert stream.lines(0, 100, is_final=True)[1].at == 20.0


def test_a_stamp_cut_in_half_by_a_power_cut_does_no_harm(stream: LogStream, tmp_path: Path) -> None:
    stream.append(b"one\n", 10.0)
    with (tmp_path / "logs/1-0.0.times").open("ab") as times:
        times.write(b"\0\0\0")
    stream.append(b"two\n", 20.0)
    stream.append(b"three\n", 30.0)
    assert [(line.at, line.text) for line in stream.lines(0, 100, is_final=True)] == [
        (10.0, b"one"),
        (20.0, b"two"),
        (30.0, b"three"),
    ]


def test_the_tail_begins_at_a_line(stream: LogStream) -> None:
    stream.append(b"a\nb\nc\nopen", 10.0)
    assert [texts(stream, stream.tail_offset(count)) for count in (1, 2, 9)] == [
        [b"open"],
        [b"c", b"open"],
        [b"a", b"b", b"c", b"open"],
    ]
    stream.append(b"\n", 11.0)
    assert texts(stream, stream.tail_offset(2)) == [b"c", b"open"]


def test_the_tail_is_found_over_blocks(stream: LogStream) -> None:
    for index in range(5000):
        stream.append(b"line %d\n" % index, 10.0)
    assert texts(stream, stream.tail_offset(4000))[0] == b"line 1000"


def test_offset_at_finds_the_first_line_of_a_time(stream: LogStream) -> None:
    for at in (10.0, 20.0, 30.0):
        stream.append(b"%d\n" % at, at)
    assert [texts(stream, stream.offset_at(at)) for at in (0.0, 20.0, 25.0, 99.0)] == [
        [b"10", b"20", b"30"],
        [b"20", b"30"],
        [b"30"],
        [],
    ]


pieces = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12)), max_size=12)


@settings(max_examples=60, deadline=None)
@given(pieces)
def test_chunks_in_any_order_yield_exactly_the_written_bytes(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("stream")
    stream = LogStream(folder / "logs", "1-0.0")
    whole = bytes(range(65, 65 + 42))
    for offset, length in chunks:
        before = stream.size()
        accepted = stream.append(whole[offset : offset + length], 1.0, offset)
        assert accepted == (offset <= before)
    if stream.size():
        assert content(folder) == whole[: stream.size()]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=30).map(lambda b: b.replace(b"\x01", b"\n")), max_size=8),
    st.integers(1, 7),
)
def test_reading_in_any_steps_returns_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], step: int
) -> None:
    stream = LogStream(tmp_path_factory.mktemp("stream") / "logs", "s")
    for index, chunk in enumerate(chunks):
        stream.append(chunk, float(index))
    whole = b"".join(chunks)
    expected = whole.removesuffix(b"\n").split(b"\n") if whole else []
    found, offset = [], 0
    while lines := stream.lines(offset, 1 << 20, is_final=True)[:step]:
        found += [line.text for line in lines]
        offset = lines[-1].end
    assert found == expected
    assert offset == len(whole)
