"""Opening a WebSocket to the head, from a client or a worker."""

import json
import socket
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake
from websockets.http11 import Response
from websockets.uri import parse_uri

from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import MAX_MESSAGE
from pit_protocol.sessions.websocket import WebSocket
from pit_protocol.version_check import HEADERS

CONNECT_S = 10.0
ANSWER_S = 30.0
SWITCHED = 101


def connect(
    url: str, token: str, context: ssl.SSLContext | None, headers: Mapping[str, str] | None = None
) -> WebSocket:
    """Open a WebSocket; raises OSError, or the Problem that the head answered with.

    `context` is what makes an https connection trustworthy; None only for plain http.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if context else 80)
    sock: socket.socket = socket.create_connection((parts.hostname or "", port), CONNECT_S)
    try:
        if context:
            sock = context.wrap_socket(sock, server_hostname=parts.hostname)
        protocol = ClientProtocol(parse_uri(url.replace("http", "ws", 1)), max_size=MAX_MESSAGE)
        request = protocol.connect()
        for name, value in {**HEADERS, **(headers or {}), "Authorization": f"Bearer {token}"}.items():
            request.headers[name] = value
        protocol.send_request(request)
        _shake_hands(sock, protocol)
        return WebSocket(sock, protocol)
    except BaseException:
        sock.close()
        raise


def _shake_hands(sock: socket.socket, protocol: ClientProtocol) -> None:
    deadline = time.monotonic() + ANSWER_S
    for data in protocol.data_to_send():
        sock.sendall(data)
    while True:
        # Byte by byte: what follows the answer is read by the WebSocket.
        for event in protocol.events_received():
            if isinstance(event, Response) and event.status_code != SWITCHED:
                raise _refusal(event)
            if isinstance(protocol.handshake_exc, InvalidHandshake):
                raise ConnectionError("it does not answer as a pit head does")
            return
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("it took too long")
        sock.settimeout(left_s)
        data = sock.recv(1)
        if data:
            protocol.receive_data(data)
        elif protocol.handshake_exc is None:
            protocol.receive_eof()
            if not protocol.events:
                raise ConnectionError("the connection broke off")


def _refusal(response: Response) -> Problem:
    try:
        body = json.loads(response.body or b"")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {"message": f"the head answered HTTP {response.status_code}"}
    return Problem.from_json({**body, "status": response.status_code})
