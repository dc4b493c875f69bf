"""The head as seen from here: one method per route; what goes wrong on the way becomes a Problem."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

import requests
import urllib3

from pit.connection import Connection, find_connection, is_loopback
from pit_protocol import API_PREFIX
from pit_protocol.problem import Problem
from pit_protocol.submission import Submission
from pit_protocol.wire import to_json

CONNECT_S = 5.0
ANSWER_S = 30.0  # on top of the time that the head was asked to hold its answer
UPLOAD_S = 600.0
ONE_JOBS_OWN = (403, 404, 409)  # statuses of problems that say nothing about other jobs

Json = dict[str, Any]
Params = Mapping[str, str | int | float | None]


class Unreachable(Problem):
    """The head did not answer this time; asking again may help."""


class Head:
    """An HTTP session with one head; sends the connection's token to the connection's URL alone."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session = requests.Session()
        # An `auth` of our own also keeps requests from taking a password out of ~/.netrc.
        self._session.auth = self._authorize
        if is_loopback(urlsplit(connection.url).hostname or ""):
            self._session.trust_env = False  # a proxy of the environment must not see local traffic

    def __enter__(self) -> "Head":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def about(self) -> Json:
        return self._ask("GET", "/")

    def me(self) -> Json:
        return self._ask("GET", "/me")

    def upload(self, digest: str, body: BinaryIO) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        self._call("PUT", f"/uploads/{digest}", data=body, headers=headers, answer_s=UPLOAD_S).close()

    def submit(self, submission: Submission) -> Json:
        return self._ask("POST", "/jobs", json=to_json(submission))

    def jobs(self, filters: Params) -> Json:
        return self._ask("GET", "/jobs", params=filters)

    def job(self, number: int, wait_s: float = 0) -> Json:
        return self._ask("GET", f"/jobs/{number}", params={"wait_s": wait_s or None}, wait_s=wait_s)

    def stop(self, number: int) -> Json:
        return self._ask("POST", f"/jobs/{number}/stop")

    def log(self, number: int, params: Params, wait_s: float = 0) -> Json:
        asked = {**params, "wait_s": wait_s or None}
        return self._ask("GET", f"/jobs/{number}/log", params=asked, wait_s=wait_s)

    def status(self, seen: int | None = None, wait_s: float = 0) -> Json:
        return self._ask("GET", "/status", params={"seen": seen, "wait_s": wait_s or None}, wait_s=wait_s)

    def nodes(self) -> Json:
        return self._ask("GET", "/nodes")

    def node(self, name: str) -> Json:
        return self._ask("GET", f"/nodes/{quote(name, safe='')}")

    @contextmanager
    def archive(self, number: int) -> Iterator[requests.Response]:
        """The open answer with the archive's bytes; read it by `chunks`."""
        headers = {"Accept-Encoding": "identity"}
        with self._call("GET", f"/jobs/{number}/archive", headers=headers, stream=True) as response:
            yield response

    def chunks(self, response: requests.Response, size: int = 256 * 1024) -> Iterator[bytes]:
        """The body of an open answer; raises Unreachable if it breaks off."""
        try:
            yield from response.iter_content(size)
        except requests.RequestException as error:
            raise self._unreachable(_why(error)) from error

    def _ask(self, method: str, path: str, *, wait_s: float = 0, **options: Any) -> Json:
        response = self._call(method, path, answer_s=ANSWER_S + wait_s, **options)
        try:
            body = response.json()
        except ValueError:
            raise self._foreign(response) from None
        if not isinstance(body, dict):
            raise self._foreign(response)
        return body

    def _call(
        self, method: str, path: str, *, answer_s: float = ANSWER_S, **options: Any
    ) -> requests.Response:
        try:
            response = self._session.request(
                method,
                f"{self.connection.url}{API_PREFIX}{path}",
                timeout=(CONNECT_S, answer_s),
                allow_redirects=False,  # the token is for this URL, not for where it points
                **options,
            )
        except requests.exceptions.SSLError as error:
            raise Problem(
                "untrusted_head",
                f"the certificate of {self.connection.url} is not trusted: {_why(error)}",
                f"check the address in {self.connection.source}" if self.connection.source else "",
            ) from error
        except requests.RequestException as error:
            raise self._unreachable(_why(error)) from error
        if response.status_code >= 300:
            with response:
                raise self._refusal(response)
        return response

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.connection.token:
            request.headers["Authorization"] = f"Bearer {self.connection.token}"
        return request

    def _refusal(self, response: requests.Response) -> Problem:
        try:
            body = response.json()
        except (ValueError, requests.RequestException):
            body = None
        known = isinstance(body, dict) and "message" in body
        if response.status_code in (502, 503, 504):
            return self._unreachable(str(body["message"]) if known else f"HTTP {response.status_code}")
        if response.status_code == 401 and self.connection.token_file:
            return self._unknown_token()
        if known:
            return Problem.from_json({**body, "status": response.status_code})
        return self._foreign(response)

    def _unknown_token(self) -> Problem:
        connection = self.connection
        return Problem(
            "bad_token",
            f"the head at {connection.url} does not accept the token in {connection.token_file}",
            f"`rm {connection.token_file}`, then `pit up`, makes a new one"
            if connection.is_embedded
            else f"`pit connect {connection.url}` asks for a new one",
            status=401,
        )

    def _unreachable(self, why: str) -> Unreachable:
        connection = self.connection
        named = f" (from {connection.source})" if connection.source else ""
        hint = "check the address, and whether the head runs"
        if connection.is_embedded:
            hint = "`pit up` starts it"
        return Unreachable("unreachable", f"no answer from the head at {connection.url}{named}: {why}", hint)

    def _foreign(self, response: requests.Response) -> Problem:
        return Problem(
            "not_a_head",
            f"{self.connection.url} does not answer as a pit head does (HTTP {response.status_code})",
            f"check the address in {self.connection.source}"
            if self.connection.source
            else "check the address",
            status=response.status_code,
        )


def open_head() -> Head:
    """The head for the current directory; raises a Problem if none is known."""
    return Head(find_connection())


def _why(error: BaseException) -> str:
    """The innermost reason of a failed exchange, in a few words."""
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror | urllib3.exceptions.NameResolutionError) for cause in causes):
        return "there is no such host"
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return str(cause.verify_message)
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    # Last, for urllib3 counts a refused connection among the timeouts.
    if any(isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError) for cause in causes):
        return "it took too long"
    return "the connection broke off"


def _causes(error: BaseException) -> Iterator[BaseException]:
    waiting: list[BaseException] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        inner = (current.__cause__, current.__context__, getattr(current, "reason", None), *current.args)
        waiting.extend(cause for cause in inner if isinstance(cause, BaseException))
