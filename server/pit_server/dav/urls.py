"""Names of resources in WebDAV URLs and answers, and Problems as WebDAV errors."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from urllib.parse import quote

from wsgidav.dav_error import DAVError

from pit_protocol.problem import Problem

CALLER, OPENED = "pit.caller", "pit.opened"  # keys that `DavApp` sets in a request's environment
CREATED = "pit.created"  # whether a MOVE created its target, which WsgiDAV does not check
SAFE_IN_URL = "/!*'(),$-_|."
Environ = dict[str, Any]


class DavNames:
    """Names of a resource in URLs and answers. File names are bytes, not necessarily UTF-8."""

    path: str
    name: str
    provider: Any

    def get_ref_url(self) -> str:
        return self._ref_url

    @cached_property
    def _ref_url(self) -> str:
        # Cached, because WsgiDAV calls it for every property.
        return quote(os.fsencode(self.get_preferred_path()), safe=SAFE_IN_URL)

    def get_href(self) -> str:
        return quote(os.fsencode(self.provider.mount_path + self.get_preferred_path()), safe=SAFE_IN_URL)

    def get_display_name(self) -> str | None:
        # Unprintable characters are not allowed in XML and would make the whole answer invalid.
        return self.name if self.name.isprintable() else None

    def get_preferred_path(self) -> str:
        raise NotImplementedError


def as_dav(problem: Problem) -> DAVError:
    """Convert a Problem to an error of WsgiDAV."""
    return DAVError(problem.status, problem.message)


@contextmanager
def problems_as_dav() -> Iterator[None]:
    """Convert Problems to errors of WsgiDAV."""
    try:
        yield
    except Problem as problem:
        raise as_dav(problem) from problem
