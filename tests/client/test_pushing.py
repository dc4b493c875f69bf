"""How a file's bytes are sent."""

import io

import requests

from pit.pushing import _Body


def test_a_files_bytes_are_sent_by_length_and_not_in_chunks() -> None:
    noted: list[int] = []
    hashed: list[bytes] = []
    body = _Body(io.BytesIO(b"before, and what is left"), 6, noted.append, hashed.append)
    request = requests.Request("PUT", "http://head/", data=body).prepare()
    assert request.headers["Content-Length"] == "6"
    assert "Transfer-Encoding" not in request.headers
    assert list(body) == [b"before"]
    assert (sum(noted), b"".join(hashed)) == (6, b"before")
