"""Streams of output as files: every byte once, every line with its time."""

import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pit_server.store.log_lines import MAX_LINE
from pit_server.store.log_stream import LogStream
from pit_server.store.log_times import FORMAT


@pytest.fixture
def stream(tmp_path: Path) -> LogStream:
    return LogStream(tmp_path / "logs", "1-0.0")


def texts(stream: LogStream, offset: int = 0, *, limit: int = 1 << 20, is_final: bool = True) -> list[bytes]:
    return [line.text for line in stream.read(offset, limit, is_final=is_final).lines]


def content(tmp_path: Path) -> bytes:
    return (tmp_path / "logs/1-0.0.log").read_bytes()


def test_a_new_stream_is_empty(stream: LogStream) -> None:
    assert (stream.size(), texts(stream), stream.tail_offset(5), stream.offset_at(1.0)) == (0, [], 0, 0)
    stream.sync()


def test_lines_carry_the_time_at_which_they_began(stream: LogStream) -> None:
    stream.append(b"one\ntw", 10.0)
    stream.append(b"o\nthree\n", 20.0)
    assert [(line.at, line.text, line.end) for line in stream.read(0, 100, is_final=False).lines] == [
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
    assert texts(stream) == [b"", b"", b"\xff\xfe\0"]


@pytest.mark.threat("S53")
def test_an_overlong_line_comes_in_pieces_without_waiting_for_its_end(stream: LogStream) -> None:
    stream.append(b"x" * (2 * MAX_LINE + 5), 10.0)
    assert [len(text) for text in texts(stream, is_final=False)] == [MAX_LINE, MAX_LINE]
    stream.append(b"\nnext\n", 11.0)
    assert [len(text) for text in texts(stream, 2 * MAX_LINE)] == [5, 4]


def test_an_overlong_line_is_never_cut_inside_a_character(stream: LogStream) -> None:
    text = "a" + "é€😀" * 9000
    stream.append(text.encode(), 10.0)
    shown = texts(stream)
    assert len(shown) > 2
    assert "".join(piece.decode() for piece in shown) == text


def test_bytes_that_are_no_characters_are_cut_anywhere(stream: LogStream) -> None:
    stream.append(b"\x80" * (2 * MAX_LINE + 1), 10.0)
    assert [len(text) for text in texts(stream)] == [MAX_LINE, MAX_LINE, 1]


def test_of_a_rewritten_line_the_last_version_is_shown(stream: LogStream) -> None:
    stream.append(b"10%\r50%\r90%\r\ndos\r\n\rbar", 10.0)
    assert texts(stream) == [b"90%", b"dos", b"bar"]


def test_a_nested_progress_bar_is_one_line_that_is_rewritten(stream: LogStream) -> None:
    # As tqdm writes it: down to the inner bar, and up again after each version.
    for epoch in (1, 2):
        for step in range(3):
            stream.append(b"\n\rstep %d\x1b[A" % step, 10.0)
        stream.append(b"\n\r      \x1b[A\repoch %d" % epoch, 10.0)
    assert texts(stream) == [b"", b"epoch 1", b"epoch 2"]
    assert texts(stream, stream.tail_offset(2)) == [b"epoch 1", b"epoch 2"]
    assert stream.count(8, stream.size()) == (3, 14)
    stream.append(b"\n\rstep 7\x1b[A", 20.0)
    portion = stream.read(0, 1 << 20, is_final=False)
    assert portion.unfinished is not None
    assert portion.unfinished.text == b"step 7"


def test_three_nested_progress_bars_rewrite_one_line_below_the_first(stream: LogStream) -> None:
    up = b"\x1b[A"
    stream.append(b"\repoch 0", 10.0)
    for batch in (b"1", b"2"):
        stream.append(b"\n\rbatch " + batch + up, 10.0)
        for step in (b"1", b"2"):
            stream.append(b"\n\n\rstep " + step + up + up, 10.0)
            portion = stream.read(0, 1 << 20, is_final=False)
            assert (
                [line.text for line in portion.lines],
                portion.unfinished and portion.unfinished.text,
            ) == (
                [b"epoch 0"],
                b"step " + step,
            )
        stream.append(b"\n\n\r      " + up + up, 10.0)
    stream.append(b"\n\r       " + up + b"\repoch 1\ndone\n", 10.0)
    assert texts(stream) == [b"epoch 0", b"epoch 1", b"done"]
    assert texts(stream, stream.tail_offset(2)) == [b"epoch 1", b"done"]


def test_the_unfinished_line_is_known_and_reading_continues_at_its_last_version(stream: LogStream) -> None:
    stream.append(b"one\n10%\r5", 10.0)
    stream.append(b"0%\r", 20.0)
    portion = stream.read(0, 100, is_final=False)
    assert [line.text for line in portion.lines] == [b"one"]
    assert portion.unfinished == (10.0, b"50%", 8, 12)
    stream.append(b"90%", 30.0)
    portion = stream.read(portion.position, 100, is_final=False)
    assert (portion.lines, portion.unfinished) == ([], (30.0, b"90%", 12, 15))


@pytest.mark.threat("S53")
def test_a_line_rewritten_for_days_is_one_line_and_does_not_fill_memory(stream: LogStream) -> None:
    for index in range(200):
        stream.append(b"".join(b"\rstep %06d" % (index * 2000 + i) for i in range(2000)), 10.0 + index)
    tracemalloc.start()
    try:
        portion = stream.read(0, 256 * 1024, is_final=False)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    assert (portion.lines, portion.is_complete) == ([], True)
    assert portion.unfinished is not None
    assert (portion.unfinished.at, portion.unfinished.text) == (209.0, b"step 399999")


def test_a_time_within_a_rewritten_line_begins_with_its_next_version(stream: LogStream) -> None:
    stream.append(b"10%\r20", 10.0)
    stream.append(b"%\r30%", 20.0)
    assert texts(stream, stream.offset_at(15.0)) == [b"30%"]


@pytest.mark.threat("F04")
def test_a_head_killed_between_time_and_bytes_loses_nothing(stream: LogStream, tmp_path: Path) -> None:
    stream.append(b"one\n", 10.0)
    with (tmp_path / "logs/1-0.0.times").open("ab") as times:
        times.write(FORMAT.pack(4, 15.0))
    stream.append(b"two\n", 20.0, offset=4)
    assert [line.text for line in stream.read(0, 100, is_final=True).lines] == [b"one", b"two"]
    assert stream.read(0, 100, is_final=True).lines[1].at == 20.0


def test_a_stamp_cut_in_half_by_a_power_cut_does_no_harm(stream: LogStream, tmp_path: Path) -> None:
    stream.append(b"one\n", 10.0)
    with (tmp_path / "logs/1-0.0.times").open("ab") as times:
        times.write(b"\0\0\0")
    stream.append(b"two\n", 20.0)
    stream.append(b"three\n", 30.0)
    assert [(line.at, line.text) for line in stream.read(0, 100, is_final=True).lines] == [
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
@pytest.mark.threat("F23")
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
    st.lists(
        st.lists(st.sampled_from([b"\n", b"\r", b"\x1b[A", b"\x1b", b"[A", b"x", b"\xff"]), max_size=9).map(
            b"".join
        ),
        max_size=8,
    ),
    st.integers(1, 7),
)
def test_reading_in_any_steps_returns_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], step: int
) -> None:
    stream = LogStream(tmp_path_factory.mktemp("stream") / "logs", "s")
    for index, chunk in enumerate(chunks):
        stream.append(chunk, float(index))
    whole = b"".join(chunks)
    # A model: what leads back to the same line is a return that ends no line.
    simple = re.sub(rb"\x1b\[A\n{1,16}", b"\r", whole)
    written = simple.removesuffix(b"\n").split(b"\n") if simple else []
    expected = [re.sub(rb"(\r|\x1b\[A)+$", b"", line).rpartition(b"\r")[2] for line in written]
    found, offset = [], 0
    while lines := stream.read(offset, 1 << 20, is_final=True).lines[:step]:
        found += [line.text for line in lines]
        offset = lines[-1].end
    assert found == expected
    assert offset == len(whole)


def missing(count: int) -> bytes:
    return b"pit: %d bytes of output are missing here: only the beginning and the end are kept" % count


@pytest.fixture
def cut(stream: LogStream) -> LogStream:
    """A stream with a gap from 10 to 70."""
    stream.append(b"one\ntwo\nth", 10.0)
    assert stream.append(b"ix\nseven\n", 20.0, 70, gap=60)
    return stream


def test_a_gap_is_one_line_with_the_number_of_bytes(cut: LogStream) -> None:
    assert texts(cut) == [b"one", b"two", b"th", missing(60), b"ix", b"seven"]
    assert [line.at for line in cut.read(0, 1000, is_final=True).lines] == [10.0] * 3 + [20.0] * 3
    assert [texts(cut, offset)[0] for offset in (10, 40, 69, 70)] == [
        missing(60),
        missing(30),
        missing(1),
        b"ix",
    ]
    assert (cut.size(), cut.gap()) == (79, (10, 70))


def test_reading_in_steps_comes_past_a_gap(cut: LogStream) -> None:
    position, found = 0, list[bytes]()
    while position < cut.size():
        portion = cut.read(position, 4, is_final=True)
        found += [line.text for line in portion.lines]
        position = portion.position
    assert found == texts(cut)
    assert cut.count(4, cut.size()) == (6, sum(map(len, found)))


def test_what_was_seen_before_there_was_a_gap_stays_hidden(cut: LogStream) -> None:
    assert [line.text for line in cut.read(0, 10_000, is_final=True, until=10).lines] == [
        b"one",
        b"two",
        b"th",
    ]


def test_the_tail_of_a_stream_with_a_gap(cut: LogStream) -> None:
    assert [texts(cut, cut.tail_offset(count)) for count in range(1, 8)] == [
        texts(cut)[-count:] for count in range(1, 8)
    ]


def test_times_are_found_on_both_sides_of_a_gap(cut: LogStream) -> None:
    assert [cut.offset_at(time) for time in (5.0, 15.0, 25.0)] == [0, 70, 79]


def test_bytes_that_are_missing_but_not_given_up_are_waited_for(cut: LogStream) -> None:
    assert not cut.append(b"later", 30.0, 100, gap=20)
    assert cut.append(b"n\neight", 30.0, 77)
    assert texts(cut)[-2:] == [b"seven", b"eight"]


def test_a_stream_that_is_cut_again_has_one_gap(cut: LogStream, tmp_path: Path) -> None:
    cut.append(b"end\n", 30.0, 100, gap=21)
    assert texts(cut) == [b"one", b"two", b"th", missing(90), b"end"]
    assert texts(cut, 79) == [missing(21), b"end"]
    assert [file.name for file in sorted((tmp_path / "logs/1-0.0.end").iterdir())] == ["100", "100.times"]


def test_a_flood_stays_below_its_limit_on_disk(stream: LogStream, tmp_path: Path) -> None:
    for number in range(10_000):
        stream.append(b"%9d\n" % number, number / 100, keep=8_000)
    used = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert used < 8_000 * 1.25 + 8 * 4200
    found = [int(text) for text in texts(stream) if not text.startswith(b"pit")]
    assert found[:100] == list(range(100)) and found[-600:] == list(range(9_400, 10_000))
