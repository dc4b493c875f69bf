"""An HTTP session with one head: every failure becomes a Problem."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import requests

from pit.connect.connection import Connection
from pit_protocol import API_PREFIX
from pit_protocol.hosts import is_loopback
from pit_protocol.problem import Problem
from pit_protocol.transport.tls import explain, get_verify_code, secure
from pit_protocol.version_check import HEADER, HEADERS, check_protocol
from pit_protocol.wire import decode

CONNECT_S = 5.0
ANSWER_S = 30.0  # on top of the time that the head was asked to hold its answer
MISDIRECTED = "misdirected"  # refused before the head looks at the version
T = TypeVar("T")


class Unreachable(Problem):
    """The head did not answer this time; asking again may help."""


class Insecure(Problem):
    """The server is not the head, or cannot prove it; asking again does not help."""

    def __init__(self, code: str, message: str, hint: str, *, verify_code: int) -> None:
        super().__init__(code, message, hint)
        self.verify_code = verify_code  # OpenSSL's number for what is wrong with the certificate, or 0


class HeadSession:
    """An HTTP session with one head; the connection's token is sent only to the connection's URL."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session = requests.Session()
        self._session.headers.update(HEADERS)
        # An `auth` of our own also keeps requests from taking a password out of ~/.netrc.
        self._session.auth = self._authorize
        if connection.url.startswith("https:"):
            secure(self._session, connection.certificates)
        if is_loopback(urlsplit(connection.url).hostname or ""):
            self._session.trust_env = False  # a proxy of the environment must not see local traffic

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def chunks(self, response: requests.Response, size: int = 256 * 1024) -> Iterator[bytes]:
        """The body of an open response; raises Unreachable if it breaks off."""
        try:
            yield from response.iter_content(size)
        except requests.RequestException as error:
            raise self._unreachable(explain(error)) from error

    def ask(self, kind: type[T], method: str, path: str, *, wait_s: float = 0, **options: Any) -> T:
        """A route's answer, decoded as `kind`; a body that does not fit is a Problem."""
        return self.decode(kind, self.call(method, path, answer_s=ANSWER_S + wait_s, **options))

    def open(self, method: str, path: str, **options: Any) -> requests.Response:
        """A route's open response, for a body that is not JSON or large; read it with `chunks`."""
        return self.call(method, path, stream=True, **options)

    def decode(self, kind: type[T], response: requests.Response) -> T:
        try:
            return decode(kind, response.content)
        except Problem as problem:
            check_protocol(response.headers.get(HEADER), "head", "client")
            raise self._foreign(response, problem.message) from problem

    def call(
        self, method: str, path: str, *, prefix: str = API_PREFIX, answer_s: float = ANSWER_S, **options: Any
    ) -> requests.Response:
        try:
            response = self._session.request(
                method,
                f"{self.connection.url}{prefix}{path}",
                timeout=(CONNECT_S, answer_s),
                allow_redirects=False,  # the token is for this URL, not for where it points
                **options,
            )
        except requests.exceptions.SSLError as error:
            raise self._insecure(error) from error
        except requests.RequestException as error:
            raise self._unreachable(explain(error)) from error
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
            if known:  # the head runs, but cannot do it now
                message = f"the head at {self.connection.url} cannot do this now: {body['message']}"
                return Unreachable(str(body.get("code")), message, str(body.get("hint") or "try again"))
            return self._unreachable(f"HTTP {response.status_code}")
        if response.status_code == 401 and self.connection.token_file:
            return self._bad_token(has_expired=known and body.get("code") == "expired_token")
        if known:
            problem = Problem.from_json({**body, "status": response.status_code})
            if problem.code != MISDIRECTED:
                check_protocol(response.headers.get(HEADER), "head", "client")
            return problem
        return self._foreign(response)

    def _bad_token(self, *, has_expired: bool) -> Problem:
        connection = self.connection
        return Problem(
            "bad_token",
            f"the token in {connection.token_file} has expired"
            if has_expired
            else f"the head at {connection.url} does not accept the token in {connection.token_file}",
            f"`rm {connection.token_file}`, then `pit up`, makes a new one"
            if connection.is_embedded
            else "`pit login` gets a new one",
            status=401,
        )

    def _insecure(self, error: BaseException) -> "Insecure":
        address, named = self.connection.address, f" (from {self.connection.source})"
        where = f"{address.url}{named if self.connection.source else ''}"
        wanted = f"it must show {' or '.join(address.pins)}; " if address.certificates else ""
        return Insecure(
            "insecure",
            f"the head at {where} does not prove to be the one: {explain(error)}",
            f"{wanted}nothing was sent to it; ask the head's admin before anything else",
            verify_code=get_verify_code(error),
        )

    def _unreachable(self, why: str) -> Unreachable:
        connection = self.connection
        named = f" (from {connection.source})" if connection.source else ""
        hint = "check the address, and that the head is running"
        if connection.is_embedded:
            hint = "`pit up` starts it"
        return Unreachable("unreachable", f"no answer from the head at {connection.url}{named}: {why}", hint)

    def _foreign(self, response: requests.Response, why: str = "") -> Problem:
        details = f"HTTP {response.status_code}{f', {why}' if why else ''}"
        return Problem(
            "not_a_head",
            f"{self.connection.url} does not answer as a pit head does ({details})",
            f"check the address in {self.connection.source}"
            if self.connection.source
            else "check the address",
            status=response.status_code,
        )
