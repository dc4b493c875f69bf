"""A job's log as a file in its archive."""

import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pit_server.context import Head
from pit_server.store import log_lines, log_stream
from pit_server.store.log_stream import LogStream
from tests.support.clusters.head import NOW, ONE_DATABASE, Person, Worker, a_chunk, running


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


def log_file(person: Person, number: int) -> str:
    body = person.get(f"/jobs/{number}/archive").data
    with tarfile.open(fileobj=io.BytesIO(body), mode="r:gz") as tar:
        assert tar.getnames()[-1] == f"job-{number}.log", "it is beside the directory, not in it"
        file = tar.extractfile(f"job-{number}.log")
        assert file is not None
        return file.read().decode()


@ONE_DATABASE
def test_the_archive_has_the_log_with_the_last_version_of_each_line(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job("2:[]")
    head.data.attempt(number, 1).mkdir(parents=True, exist_ok=True)
    first, second = worker.orders()
    chunks = [
        a_chunk(first, "10%\r100% é\n".encode(), at=NOW + 1e9),
        a_chunk(second, b"caf\xc3\xa9\nunfinished", at=NOW + 1e9 + 1),
    ]
    worker.beat(running(first), running(second), chunks=chunks)
    text = log_file(anna, number).splitlines()
    assert text[0].endswith(f"Z] [head] job {number} accepted from anna")
    assert [line.partition("Z] ")[2] for line in text[-3:]] == [
        "[worker 0] 100% é",
        "[worker 1] café",
        "[worker 1] unfinished",
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"ab", b"x" * 30, b"\xc3\xa9", b"\n\n", b"y" * 9]), max_size=60)
)
def test_the_size_of_a_stream_is_known_before_it_is_read(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    stream = LogStream(tmp_path_factory.mktemp("stream") / "logs", "s")
    stream.append(b"".join(pieces), 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_lines, "MAX_LINE", 16)
        patch.setattr(log_stream, "BLOCK", 40)
        lines, position, is_complete = [], 0, False
        while not is_complete:
            portion = stream.read(position, 24, is_final=True, until=stream.size())
            lines += portion.lines
            position, is_complete = portion.position, portion.is_complete
        found = (len(lines), sum(len(line.text) for line in lines))
        assert stream.count(24, stream.size()) == found
