"""Which files are sent, and how their bytes are."""

import io

import pytest
import requests

from pit.args.remote_path import RemotePath
from pit.connect.connection import Connection
from pit.head.client import Head
from pit.head.files_api import FILE, Entry, FilesApi
from pit.transfer.push import Push, _Body
from pit.ui.progress import Bar


def test_a_files_bytes_are_sent_by_length_and_not_in_chunks() -> None:
    noted: list[int] = []
    hashed: list[bytes] = []
    body = _Body(io.BytesIO(b"before, and what is left"), 6, noted.append, hashed.append)
    request = requests.Request("PUT", "http://head/", data=body).prepare()
    assert request.headers["Content-Length"] == "6"
    assert "Transfer-Encoding" not in request.headers
    assert list(body) == [b"before"]
    assert (sum(noted), b"".join(hashed)) == (6, b"before")


@pytest.mark.parametrize(
    ("size", "mtime"), [(9, 2000.0), (11, 2000.0), (10, 2000.0), (10, 500.0), (9, 1000.0)]
)
def test_going_on_sends_a_file_that_differs_in_size_or_time(size: int, mtime: float) -> None:
    own = Entry("file", FILE, 10, 1000.25, 0o644, "")
    push = Push(FilesApi(Head(Connection("http://head"))), Bar(None, "data", None, 0), resume=True)
    assert push.wants(own, own._replace(size=size, mtime=mtime), RemotePath("home"))
    assert not push.wants(own, own._replace(mtime=1000.0), RemotePath("home"))
