"""Bind errors, detected before gunicorn starts."""

import socket

import pytest

from pit_protocol.problem import Problem
from pit_server.gunicorn_server import check_place


def test_a_bind_address_in_use_has_a_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Problem, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            check_place(f"127.0.0.1:{port}")
    check_place(f"127.0.0.1:{port}")
    check_place("unix:/tmp/x")


def test_an_invalid_bind_address_has_a_clear_error() -> None:
    for bind in ("no-such-host.invalid:80", "127.0.0.1:x"):
        with pytest.raises(Problem):
            check_place(bind)
