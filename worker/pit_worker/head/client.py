"""The worker's client of the head: two calls, and their errors."""

from pathlib import Path
from typing import Any, TypeVar

import requests

from pit_protocol import API_PREFIX
from pit_protocol.messages.beat import (
    BEAT_TYPE,
    STALE_EPOCH,
    UNKNOWN_SESSION,
    Beat,
    Hello,
    Orders,
    Welcome,
    pack_beat,
)
from pit_protocol.messages.site import SiteBeat, Wishes
from pit_protocol.problem import Problem
from pit_protocol.transport.tls import explain
from pit_protocol.version_check import HEADER, check_protocol
from pit_protocol.wire import from_json, to_json
from pit_worker.head.tls import CONNECT_S, open_session, read_certificates
from pit_worker.settings import SettingError, Settings, read_token
from pit_worker.spool.lease import since_boot

ANSWER_S = 10.0  # on top of how long the head may hold a beat

T = TypeVar("T")


class HeadError(Exception):
    """A call without a usable answer; worth a retry."""


class TokenRefused(HeadError):
    """The head refuses the node's token."""


class Overtaken(HeadError):
    """Another worker has taken over this node."""


class SessionUnknown(HeadError):
    """The head's database is older than this session: it was restored from a backup."""


class Head:
    """An HTTP session with the head, for one thread."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.url.rstrip("/") + API_PREFIX
        self._token_file: Path = settings.token_file
        self._http = open_session(settings.url, read_certificates(settings.ca_file))
        self.asked_at = 0.0  # time of the last call, since boot

    def greet(self, hello: Hello) -> Welcome:
        return self._post(Welcome, "/node/session", ANSWER_S, json=to_json(hello))

    def beat(self, beat: Beat, chunks: tuple[bytes, ...] = ()) -> Orders:
        return self._post(
            Orders,
            "/node/beat",
            beat.wait_s + ANSWER_S,
            data=pack_beat(beat, chunks),
            headers={"Content-Type": BEAT_TYPE},
        )

    def site_beat(self, beat: SiteBeat) -> Wishes:
        """The beat of a site's agent."""
        return self._post(Wishes, "/site/beat", beat.wait_s + ANSWER_S, json=to_json(beat))

    def _post(self, kind: type[T], path: str, wait_s: float, headers: Any = None, **body: Any) -> T:
        self.asked_at = since_boot()
        try:
            # Read each time: a refused token can be replaced without a restart of the worker.
            token = read_token(self._token_file)
            answer = self._http.post(
                self._url + path,
                headers={**(headers or {}), "Authorization": f"Bearer {token}"},
                timeout=(CONNECT_S, wait_s),
                allow_redirects=False,
                **body,
            )
            content = answer.json()
        except SettingError as error:
            raise HeadError(str(error)) from error
        except requests.JSONDecodeError as error:
            raise _refusal(answer.status_code, {}) from error
        except requests.RequestException as error:
            raise HeadError(f"no answer from the head: {explain(error)}") from error
        if answer.status_code < 500:  # a proxy may have sent the others
            _check_version(answer)
        if answer.status_code != 200:
            raise _refusal(answer.status_code, content)
        try:
            return from_json(kind, content)
        except Problem as problem:
            raise HeadError(f"the head's answer is not valid: {problem}") from problem


def _check_version(answer: requests.Response) -> None:
    try:
        check_protocol(answer.headers.get(HEADER), "head", "worker")
    except Problem as problem:
        raise HeadError(problem.message) from problem


def _refusal(status: int, content: Any) -> HeadError:
    problem = Problem.from_json({**content, "status": status} if isinstance(content, dict) else {})
    if status == 401:
        return TokenRefused(
            "the head refuses this node's token; if the node was removed, "
            "`pit add node:NAME` and `pit-worker join --force` bring it back"
        )
    if problem.code == STALE_EPOCH:
        return Overtaken(problem.message)
    if problem.code == UNKNOWN_SESSION:
        return SessionUnknown(problem.message)
    return HeadError(f"the head answered {status}: {problem.message}")
