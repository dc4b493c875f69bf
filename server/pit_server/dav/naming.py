"""How WebDAV calls things: paths in URLs and answers, and Problems as its errors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from urllib.parse import quote

from wsgidav.dav_error import DAVError

from pit_protocol.problem import Problem

CALLER, OPENED = "pit.caller", "pit.opened"  # what the gate leaves in a request's environment
CREATED = "pit.created"  # whether a MOVE has made something new, which WsgiDAV does not ask
SAFE_IN_URL = "/!*'(),$-_|."
Environ = dict[str, Any]


class Named:
    """How a resource is called in URLs and answers: names are bytes, and may be no UTF-8."""

    path: str
    name: str
    provider: Any

    def get_ref_url(self) -> str:
        return self._ref_url

    @cached_property
    def _ref_url(self) -> str:
        # WsgiDAV asks for it with every property.
        return quote(os.fsencode(self.get_preferred_path()), safe=SAFE_IN_URL)

    def get_href(self) -> str:
        return quote(os.fsencode(self.provider.mount_path + self.get_preferred_path()), safe=SAFE_IN_URL)

    def get_display_name(self) -> str | None:
        # What is not printable has no place in XML, and would make the whole answer unreadable.
        return self.name if self.name.isprintable() else None

    def get_preferred_path(self) -> str:
        raise NotImplementedError


def as_dav(problem: Problem) -> DAVError:
    """A Problem as WsgiDAV tells it."""
    return DAVError(problem.status, problem.message)


@contextmanager
def told() -> Iterator[None]:
    """Let Problems be what WsgiDAV knows."""
    try:
        yield
    except Problem as problem:
        raise as_dav(problem) from problem
