"""Transfers of a peer that reads or sends nearly nothing end, however regularly it moves a byte."""

import socket
from collections.abc import Iterator

import pytest

from pit_server.connections import patient_socket
from pit_server.connections.patient_socket import PatientSocket


class Clock:
    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def pair() -> Iterator[tuple[PatientSocket, socket.socket]]:
    here, there = socket.socketpair()
    adopted = PatientSocket.adopt(here)
    with adopted, there:
        yield adopted, there


def test_a_reader_that_reads_nothing_is_given_up(
    pair: tuple[PatientSocket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patient_socket, "PATIENCE_S", 0.05)
    monkeypatch.setattr(patient_socket, "SLOWEST", 1 << 30)
    pair[0].setblocking(True)
    pair[0].renew()
    with pytest.raises(TimeoutError):
        for _ in range(100):
            pair[0].sendall(bytes(1 << 20))


def test_a_sender_of_a_byte_now_and_then_is_given_up(
    pair: tuple[PatientSocket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(patient_socket, "time", clock)
    sock, peer = pair
    sock.setblocking(True)
    sock.renew()
    wait = sock._begin

    def begin(size: int) -> float:
        began = wait(size)
        clock.seconds += 5.0  # the peer takes its time
        return began

    monkeypatch.setattr(sock, "_begin", begin)
    peer.sendall(bytes(100))
    with pytest.raises(TimeoutError, match="too slow"):
        for _ in range(100):
            assert sock.recv(1)
    assert clock.seconds <= patient_socket.PATIENCE_S + 5
