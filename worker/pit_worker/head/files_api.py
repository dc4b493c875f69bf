"""The head's API for nodes without its files: get trees, send changes, get tokens for mounts."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import requests

from pit_protocol import API_PREFIX
from pit_protocol.arrays.numbers import job_name
from pit_protocol.messages.beat import UNKNOWN_SESSION
from pit_protocol.problem import Problem
from pit_protocol.transport.tls import explain
from pit_worker.head.client import HeadError
from pit_worker.head.tls import CONNECT_S, open_session, read_certificates
from pit_worker.settings import SettingError, Settings, read_token

ANSWER_S = 60.0
STORE_S = 600.0  # for the head to write what was sent
BLOCK = 256 * 1024
# May succeed a moment later; a refused token may be replaced at any time.
AGAIN = (401, 408, 429, 500, 502, 503, 504)
NO_ROOM = 507


class Refused(Exception):
    """The head refuses, and a retry does not help. The text is for a person."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.code, self.status = problem.code, problem.status


class NoRoom(HeadError):
    """The head has no space for it now; worth a retry later."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.is_head_full = problem.code == "disk_full"  # for everybody, not only for this user


class FilesApi:
    """Calls for one attempt; any thread may use its own."""

    def __init__(self, settings: Settings, epoch: int, job: int, attempt: int) -> None:
        self._settings = settings
        self._url = f"{settings.url.rstrip('/')}{API_PREFIX}/node/attempts/{job_name(job)}/{attempt}"
        self._epoch = epoch

    def token(self) -> str:
        """A new token for the data of the attempt's user; the previous one expires."""
        with self._call("POST", "/token") as answer:
            token = answer.json().get("token")
        if not isinstance(token, str):
            raise HeadError("the head gave no token")
        return token

    @contextmanager
    def tree(self) -> Iterator[Iterator[bytes]]:
        """The attempt's directory, as a tar in pieces."""
        with self._call("GET", "/tree", stream=True) as answer:
            yield _pieces(answer)

    def bring(self, pieces: Iterable[bytes]) -> None:
        """Send what has changed."""
        with self._call("PUT", "/tree", data=pieces, wait_s=STORE_S):
            pass

    def remove(self, paths: Iterable[str]) -> None:
        with self._call("POST", "/gone", json=list(paths), wait_s=STORE_S):
            pass

    def is_head_there(self) -> bool:
        """Whether the head answers at all."""
        try:
            certificates = read_certificates(self._settings.ca_file)
            with open_session(self._settings.url, certificates) as session:
                about = self._settings.url.rstrip("/") + API_PREFIX + "/"
                return session.get(about, timeout=CONNECT_S, allow_redirects=False).status_code < 500
        except (SettingError, requests.RequestException):
            return False

    @contextmanager
    def _call(
        self, method: str, path: str, *, wait_s: float = ANSWER_S, **options: Any
    ) -> Iterator[requests.Response]:
        """One call; raises HeadError where another try makes sense, and Refused where none does."""
        try:
            token = read_token(self._settings.token_file)
            certificates = read_certificates(self._settings.ca_file)
            with (
                open_session(self._settings.url, certificates) as session,
                session.request(
                    method,
                    self._url + path,
                    params={"epoch": self._epoch},
                    headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
                    timeout=(CONNECT_S, wait_s),
                    allow_redirects=False,
                    **options,
                ) as answer,
            ):
                if answer.status_code >= 300:
                    raise _refusal(answer)
                yield answer
        except (SettingError, requests.JSONDecodeError) as error:
            raise HeadError(str(error)) from error
        except requests.RequestException as error:
            raise HeadError(f"no answer from the head: {explain(error)}") from error


def _pieces(answer: requests.Response) -> Iterator[bytes]:
    yield from answer.iter_content(BLOCK)


def _refusal(answer: requests.Response) -> Exception:
    try:
        content = answer.json()
    except requests.RequestException:
        content = {}
    problem = Problem.from_json(content if isinstance(content, dict) else {})
    problem.status = answer.status_code
    if answer.status_code == NO_ROOM:
        return NoRoom(problem)
    if answer.status_code in AGAIN or problem.code == UNKNOWN_SESSION:  # the worker is about to begin another
        return HeadError(f"the head answered {answer.status_code}: {problem.message}")
    return Refused(problem)
