"""The domains of a caller as one WebDAV tree; permissions are checked with every request."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from wsgidav.dav_provider import DAVCollection, DAVProvider

from pit_protocol.problem import Problem
from pit_server.context import Head
from pit_server.dav import paths
from pit_server.dav.propfind import PropFind
from pit_server.dav.resources import Directory, File
from pit_server.dav.urls import CALLER, OPENED, DavNames, Environ, as_dav
from pit_server.services.files.domains import Place
from pit_server.services.users.tokens import Caller
from pit_server.store.files.domain_files import Domain, Kind, parse_path


class OpenDomains:
    """The domains that a request has opened; closed at its end."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._domains: dict[tuple[str, ...], tuple[Place, Domain]] = {}

    def get(self, key: tuple[str, ...], find: Callable[[], Place]) -> tuple[Place, Domain]:
        if key not in self._domains:
            place = find()
            self._domains[key] = place, self._stack.enter_context(place.open())
        return self._domains[key]

    def close(self) -> None:
        self._stack.close()


class DomainTree(DAVProvider):  # type: ignore[misc]
    """From paths to resources: `shared`, `home`, `groups/<g>`, `jobs/<n>`, and for admins `users/<u>`."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def is_readonly(self) -> bool:
        return False

    def get_resource_inst(self, path: str, environ: Environ) -> Any:
        """The resource at a path; None if there is none or the caller may not see it."""
        parts = [part for part in path.split("/") if part]
        try:
            return self._find(parts, environ)
        except Problem as problem:
            if problem.status == 404:
                return None
            raise as_dav(problem) from problem

    def custom_request_handler(self, environ: Environ, start_response: Any, default_handler: Any) -> Any:
        if environ["REQUEST_METHOD"] == "PROPFIND":
            return PropFind(self).answer(environ, start_response)
        return default_handler(environ, start_response)

    def _find(self, parts: list[str], environ: Environ) -> Any:
        caller: Caller = environ[CALLER]
        key = paths.split(parts)
        if key is None:
            return (
                VirtualDirectory(parts, environ, self) if paths.is_virtual_directory(caller, parts) else None
            )
        place, domain = environ[OPENED].get(key, lambda: paths.find(self.head, caller, key))
        below = parse_path(os.fsencode("/".join(parts[len(key) :])))
        entry = domain.entry(below)
        where = "/" + "/".join(parts)
        if entry.kind is Kind.DIRECTORY:
            return Directory(where, environ, place, domain, below, entry)
        return File.of(where, environ, place, domain, below, entry)


class VirtualDirectory(DavNames, DAVCollection):  # type: ignore[misc]
    """A level above the domains; read-only."""

    def __init__(self, parts: list[str], environ: Environ, tree: DomainTree) -> None:
        DAVCollection.__init__(self, "/" + "/".join(parts), environ)
        self._parts, self._tree = parts, tree

    def get_preferred_path(self) -> str:
        return self.path if self.path == "/" else self.path + "/"

    def get_member_names(self) -> list[str]:
        return paths.names(self._tree.head, self.environ[CALLER], self._parts)

    def get_member_list(self) -> list[Any]:
        return list(self.members())

    def members(self) -> Iterator[Any]:
        for name in self.get_member_names():
            member = self._tree.get_resource_inst(f"{self.path}/{name}", self.environ)
            if member is not None:
                yield member

    def prevent_locking(self) -> bool:
        return True
