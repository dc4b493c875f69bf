"""Where a head can listen, told before gunicorn tries."""

import socket

import pytest

from pit_protocol.problem import Problem
from pit_server.serve import check_place


def test_a_place_that_is_taken_is_a_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Problem, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            check_place(f"127.0.0.1:{port}")
    check_place(f"127.0.0.1:{port}")
    check_place("unix:/tmp/x")


def test_a_place_that_is_none_is_a_sentence() -> None:
    for bind in ("no-such-host.invalid:80", "127.0.0.1:x"):
        with pytest.raises(Problem):
            check_place(bind)
