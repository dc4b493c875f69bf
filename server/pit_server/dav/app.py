"""The WSGI application at `/dav`: checks caller, method and body, then hands over to WsgiDAV.

It refuses callers without a token or password, and methods that are not listed here.
"""

import logging
import secrets
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from gunicorn.http.errors import NoMoreData
from sqlalchemy.exc import DBAPIError
from wsgidav.dav_error import DAVError
from wsgidav.request_resolver import RequestResolver
from wsgidav.wsgidav_app import WsgiDAVApp

from pit_protocol.problem import Problem
from pit_server.cancellation import Cancelled
from pit_server.context import Head
from pit_server.dav import auth
from pit_server.dav.locks import Locks
from pit_server.dav.provider import DomainTree, OpenDomains
from pit_server.dav.urls import CALLER, CREATED, OPENED, Environ
from pit_server.services.users import tokens
from pit_server.services.users.rate_limit import TooManyAttempts
from pit_server.traffic import Traffic

MOUNT = "/dav"
ENDED = "pit.dav_ended"  # to be called when the request has ended
READING = frozenset(("OPTIONS", "HEAD", "GET", "PROPFIND"))
METHODS = READING | {"PROPPATCH", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK"}
MAX_BODY = 64 * 1024  # of all but PUT: XML
BLOCK = 256 * 1024
REALM = 'Basic realm="pit", charset="UTF-8"'
RETRY_AFTER_S = 2
# An HTML file in a user's directory must not act as a page of the head.
SAFE = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "sandbox; default-src 'none'"),
    ("Cache-Control", "private, no-cache"),
)

log = logging.getLogger(__name__)


class DavApp:
    """A WSGI application; shared by all requests."""

    def __init__(self, head: Head) -> None:
        self._head = head
        logging.getLogger("wsgidav").setLevel(logging.CRITICAL)  # this module logs what matters
        self._dav = WsgiDAVApp(
            {
                "mount_path": MOUNT,
                "provider_mapping": {"/": DomainTree(head)},
                "middleware_stack": [RequestResolver],
                "lock_storage": Locks(),
                "property_manager": None,
                "honor_mtime_header": True,
                "mutable_live_props": ["{DAV:}getlastmodified"],
                "hotfixes": {"emulate_win32_lastmod": True, "re_encode_path_info": False},
                "http_authenticator": {"accept_basic": False},
                "block_size": BLOCK,
                "verbose": 0,
                "logging": {"enable": False},
                "suppress_version_info": True,
            }
        )

    def __call__(self, environ: Environ, start_response: Any) -> Iterator[bytes]:
        opened = OpenDomains()
        answer = _Answer(start_response, environ)
        try:
            self._prepare(environ, opened)
            yield from self._dav(environ, answer.start)
        except Exception as error:
            if answer.has_begun:
                raise  # the connection is closed, so the client sees that the response is incomplete
            yield from _refuse(environ, start_response, error)
        finally:
            opened.close()
            if end := environ.pop(ENDED, None):
                end()

    def _prepare(self, environ: Environ, opened: OpenDomains) -> None:
        """Check the request, and set up its environment for WsgiDAV."""
        method = environ["REQUEST_METHOD"]
        if method not in METHODS:
            raise Problem("no_such_method", f"method {method[:20]} is not supported", status=405)
        if tokens.TOKEN.search(environ.get("QUERY_STRING", "")):
            raise Problem(
                "token_in_url", "a token must not be in a URL, where it would be logged", status=400
            )
        environ[CALLER] = caller = auth.find(self._head, environ)
        environ[OPENED] = opened
        if caller.user_id is not None:
            environ[ENDED] = self._head.request_limits.begin(caller.user_id, Traffic.TRANSFER)
        environ["wsgidav.auth.user_name"] = caller.actor
        # Keeps WsgiDAV from reading the rest of a body into memory.
        environ["wsgidav.some_input_read"] = 1
        environ["PATH_INFO"] = _path(environ["PATH_INFO"])
        _check_body(environ, method)
        if method == "PROPFIND" and environ.get("HTTP_DEPTH", "infinity").lower() not in ("0", "1"):
            raise DAVError(HTTPStatus.FORBIDDEN, err_condition="propfind-finite-depth")
        if "HTTP_DESTINATION" in environ:
            environ["HTTP_DESTINATION"] = _destination(environ)


class _Answer:
    """Adds the common headers to a response, and knows whether it has begun."""

    def __init__(self, start_response: Any, environ: Environ) -> None:
        self._start, self._environ = start_response, environ
        self.has_begun = False

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        self.has_begun = True
        if self._environ.get(CREATED) and status.startswith("204"):
            status = "201 Created"
        return self._start(status, [*headers, *SAFE], exc_info)


def _path(raw: str) -> str:
    """Decode a WSGI path, with surrogates for bytes that are not UTF-8, like file names elsewhere."""
    path = raw.encode("latin-1").decode("utf-8", "surrogateescape")
    if "\0" in path or ".." in path.split("/"):
        raise Problem("bad_path", "a path must not contain a NUL or `..`", status=404)
    return path


def _check_body(environ: Environ, method: str) -> None:
    if method == "PUT":
        return
    if environ.get("HTTP_TRANSFER_ENCODING"):
        raise Problem("length_required", f"{method} needs a Content-Length", status=411)
    length = environ.get("CONTENT_LENGTH") or "0"
    if not length.isdecimal() or int(length) > MAX_BODY:
        raise Problem("too_large", f"the body of {method} has at most {MAX_BODY} bytes", status=413)


def _destination(environ: Environ) -> str:
    """The path of the Destination header; its scheme may differ behind a proxy."""
    parts = urlsplit(environ["HTTP_DESTINATION"])
    if parts.netloc and parts.netloc.lower() != environ.get("HTTP_HOST", "").lower():
        raise Problem("elsewhere", "the destination is on another server", status=502)
    return parts.path


def _refuse(environ: Environ, start_response: Any, error: Exception) -> Iterable[bytes]:
    problem, extra = _explain(error)
    status = f"{problem.status} {_phrase(problem.status)}"
    body = f"{problem.message}\n{problem.hint}\n".encode(errors="backslashreplace")
    kind = "text/plain; charset=utf-8"
    if isinstance(error, DAVError) and error.err_condition:
        kind, body = error.get_response_page()
    if problem.status in (204, 304) or environ["REQUEST_METHOD"] == "HEAD":
        body = b""
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *extra, *SAFE]
    if environ.get("CONTENT_LENGTH") or environ.get("HTTP_TRANSFER_ENCODING"):
        headers.append(("Connection", "close"))  # the body was not read
    start_response(status, headers)
    return [body]


def _explain(error: Exception) -> tuple[Problem, list[tuple[str, str]]]:
    if isinstance(error, TooManyAttempts):
        return error, [("Retry-After", str(error.retry_after_s))]
    if isinstance(error, Problem):
        return error, [("WWW-Authenticate", REALM)] if error.status == HTTPStatus.UNAUTHORIZED else []
    if isinstance(error, DAVError) and error.value < HTTPStatus.INTERNAL_SERVER_ERROR:
        return Problem("dav", error.context_info or _phrase(error.value).lower(), status=error.value), []
    if isinstance(error, DBAPIError):
        log.warning("the database is busy or unreachable: %s", error.orig)
        busy = Problem("database_busy", "the head's database does not answer", "try again", status=503)
        return busy, [("Retry-After", str(RETRY_AFTER_S))]
    if isinstance(error, DAVError) and error.value not in (500, 501):
        return Problem("dav", error.context_info or _phrase(error.value).lower(), status=error.value), []
    cause = getattr(error, "src_exception", None) or error
    if isinstance(cause, Cancelled):
        return cause.problem, []
    if isinstance(cause, (NoMoreData, ConnectionError, TimeoutError)):
        log.info("the client closed the connection: %s", type(cause).__name__)
        return Problem("broken_off", "the client closed the connection", status=400), []
    reference = secrets.token_hex(4)
    log.error("internal error %s", reference, exc_info=cause)
    hint = "the head's log has the details under this reference"
    return Problem("internal_error", f"internal error, reference {reference}", hint, status=500), []


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"
