"""The head as seen from here: one method per route; what goes wrong on the way becomes a Problem."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import requests
import urllib3

from pit.address import is_loopback
from pit.connection import Connection
from pit.transport import secure
from pit_protocol import API_PREFIX
from pit_protocol.problem import Problem
from pit_protocol.submission import Demand, Lacking, LargeFile, Offer, Submission
from pit_protocol.wire import to_json

CONNECT_S = 5.0
ANSWER_S = 30.0  # on top of the time that the head was asked to hold its answer
ONES_OWN = (403, 404, 409)  # statuses of problems that say nothing about others named with it

Json = dict[str, Any]
Params = Mapping[str, str | int | float | None]


class Unreachable(Problem):
    """The head did not answer this time; asking again may help."""


class Insecure(Problem):
    """Whoever answered is not the head, or cannot prove it; asking again is no way out."""

    def __init__(self, code: str, message: str, hint: str, *, verify_code: int) -> None:
        super().__init__(code, message, hint)
        self.verify_code = verify_code  # OpenSSL's number for what is wrong with the certificate, or 0


class Head:
    """An HTTP session with one head; sends the connection's token to the connection's URL alone."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session = requests.Session()
        # An `auth` of our own also keeps requests from taking a password out of ~/.netrc.
        self._session.auth = self._authorize
        if connection.url.startswith("https:"):
            secure(self._session, connection.address)
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

    def log_in(self, name: str, password: str, label: str) -> Json:
        return self._ask("POST", "/login", json={"name": name, "password": password, "label": label})

    def register(self, fields: Mapping[str, str]) -> Json:
        """Has a `token`, unless an admin must approve first."""
        return self._ask("POST", "/users", json=dict(fields))

    def me(self) -> Json:
        return self._ask("GET", "/me")

    def list_all(self, kinds: str, filters: Params | None = None) -> Json:
        """All users, groups, aliases, tokens, nodes or audit entries that the caller may see."""
        return self._ask("GET", f"/{kinds}", params=filters)

    def record(self, path: str) -> Json:
        return self._ask("GET", path)

    def add(self, path: str, properties: Mapping[str, str], *, again: bool = False) -> Json:
        params = {"again": "yes" if again else None}
        return self._ask("PUT", path, json={"set": dict(properties)}, params=params)

    def change(self, path: str, properties: Mapping[str, str]) -> Json:
        return self._ask("PATCH", path, json={"set": dict(properties)})

    def remove(self, path: str) -> None:
        self._call("DELETE", path).close()

    def give_up(self, path: str) -> list[int]:
        """Remove a node that does not come back; the numbers of the jobs that are lost with it."""
        return list(self._ask("DELETE", path, params={"lost": "yes"}).get("lost", ()))

    def add_group(self, path: str, group: str) -> None:
        self._call("PUT", f"{path}/groups/{quote(group, safe='')}").close()

    def remove_group(self, path: str, group: str) -> None:
        self._call("DELETE", f"{path}/groups/{quote(group, safe='')}").close()

    def uploaded(self, digest: str) -> Json:
        """How much of an upload the head has."""
        return self._ask("GET", f"/uploads/{digest}")

    def upload(self, digest: str, piece: bytes, offset: int, size: int) -> Json:
        """Send a piece of an upload of that size; the answer is as of `uploaded`."""
        headers = {"Content-Type": "application/octet-stream"}
        params = {"offset": offset, "size": size}
        try:
            return self._ask("PUT", f"/uploads/{digest}", data=piece, headers=headers, params=params)
        except Problem as problem:
            if problem.code != "wrong_offset":
                raise
            return self.uploaded(digest)

    def offer(self, offer: Offer) -> Demand:
        answer = self._ask("POST", "/snapshots/offer", json=to_json(offer))
        return Demand(bool(answer["complete"]), answer["base"], answer.get("why", ""))

    def lacking(self, asked: Lacking) -> Lacking:
        answer = self._ask("POST", "/snapshots/lacking", json=to_json(asked))
        large = tuple(LargeFile(file["oid"], file["size"]) for file in answer["large"])
        return Lacking(tuple(answer["objects"]), large)

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

    def node(self, name: str) -> Json:
        return self._ask("GET", f"/nodes/{quote(name, safe='')}")

    @contextmanager
    def archive(self, number: int, offset: int = 0) -> Iterator[requests.Response]:
        """The open answer with the archive's bytes from `offset` on; read it by `chunks`."""
        with self._stream(f"/jobs/{number}/archive", params={"offset": offset or None}) as response:
            yield response

    @contextmanager
    def code(self, number: int) -> Iterator[requests.Response]:
        """The open answer with a tar of the files that a job began with; read it by `chunks`."""
        with self._stream(f"/jobs/{number}/code") as response:
            yield response

    @contextmanager
    def diff(self, number: int, to: int | None) -> Iterator[requests.Response]:
        """The open answer with what a job had uncommitted, or what another had otherwise."""
        with self._stream(f"/jobs/{number}/diff", params={"to": to}) as response:
            yield response

    def compare_variables(self, number: int, to: int) -> Json:
        return self._ask("GET", f"/jobs/{number}/variables", params={"to": to})

    def chunks(self, response: requests.Response, size: int = 256 * 1024) -> Iterator[bytes]:
        """The body of an open answer; raises Unreachable if it breaks off."""
        try:
            yield from response.iter_content(size)
        except requests.RequestException as error:
            raise self._unreachable(_why(error)) from error

    def ask(self, method: str, path: str, **options: Any) -> Json:
        """A route's answer in JSON, for what has no method of its own here."""
        return self._ask(method, path, **options)

    def open(self, method: str, path: str, **options: Any) -> requests.Response:
        """A route's answer as it comes, for what is neither JSON nor small; read it by `chunks`."""
        return self._call(method, path, stream=True, **options)

    def find_data(self, path: str) -> None:
        """See that WebDAV has something there; raises a Problem if not."""
        self._call("PROPFIND", f"/dav/{quote(path)}", prefix="", headers={"Depth": "0"}).close()

    def _stream(self, path: str, **options: Any) -> requests.Response:
        return self._call("GET", path, headers={"Accept-Encoding": "identity"}, stream=True, **options)

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
            return self._bad_token(has_expired=known and body.get("code") == "expired_token")
        if known:
            return Problem.from_json({**body, "status": response.status_code})
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
            f"the head at {where} does not prove to be the one: {_why(error)}",
            f"{wanted}nothing was sent to it; ask the head's admin before anything else",
            verify_code=next((code for code in map(_verify_code, _causes(error)) if code), 0),
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


def _why(error: BaseException) -> str:
    """The innermost reason of a failed exchange, in a few words."""
    causes = list(_causes(error))
    if any(isinstance(cause, socket.gaierror | urllib3.exceptions.NameResolutionError) for cause in causes):
        return "there is no such host"
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            # One of our own has no message of OpenSSL's.
            said = str(getattr(cause, "verify_message", cause.args[-1])).rstrip(".")
            return said[:1].lower() + said[1:]
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return cause.reason.lower().replace("_", " ")
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
    # Last, for urllib3 counts a refused connection among the timeouts.
    if any(isinstance(cause, TimeoutError | urllib3.exceptions.TimeoutError) for cause in causes):
        return "it took too long"
    return "the connection broke off"


def _verify_code(cause: BaseException) -> int:
    return int(getattr(cause, "verify_code", 0))


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
