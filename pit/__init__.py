"""The client: snapshots a git project, sends it to a head, shows what becomes of it.

`from pit import Client` is the client for Python programs; the command `pit` is `pit.cli`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pit.client import Client, Job
    from pit_protocol.problem import Problem

__all__ = ["Client", "Job", "Problem"]


def __getattr__(name: str) -> Any:
    # Imported when they are asked for, so that the command starts quickly.
    if name == "Problem":
        from pit_protocol.problem import Problem

        return Problem
    if name in __all__:
        from pit import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
