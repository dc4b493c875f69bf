"""Staging of a process's data: the interface, and the variant for nodes that see the head's own files."""

from collections.abc import Callable, Collection
from typing import Protocol

from pit_protocol.messages.beat import Order, ProcessSpec, Welcome
from pit_worker.spool.entry import Entry
from pit_worker.spool.environment import StartRefused

StagedIn = Callable[[StartRefused | OSError | None], None]
StagedOut = Callable[[str], None]
Waiting = Callable[[str], None]


class Staging(Protocol):
    """No method blocks the loop: slow work ends with a callback, in the loop."""

    @property
    def trouble(self) -> str:
        """Why the node should take no new processes; empty if it may."""

    def welcome(self, welcome: Welcome) -> None:
        """A session has begun: the head can be called from now on."""

    def localise(self, order: Order, home: Welcome) -> tuple[str, ProcessSpec | None]:
        """The root of a process's data on this node, and its spec with paths below that."""

    def stage_in(self, entry: Entry, staged_in: StagedIn) -> None:
        """Bring its data here, then call `staged_in` with None or with the reason why not."""

    def watch(self, entry: Entry, lost: Callable[[], None]) -> None:
        """Call `lost` if a running process loses its data."""

    def stage_out(self, entry: Entry, staged_out: StagedOut, waiting: Waiting) -> None:
        """Bring its output to the head, then call `staged_out` with what could not be delivered, or nothing.

        `waiting` is called with the reason for a delay.
        """

    def give_up(self, entry: Entry) -> None:
        """Stop waiting for a head that refuses its output."""

    def release(self, live: Collection[Entry]) -> None:
        """Delete the data of all processes but these."""


class SharedFiles:
    """The head's files are here, on the same path or another one: nothing is copied."""

    trouble = ""

    def __init__(self, root: str) -> None:
        self._root = root

    def welcome(self, welcome: Welcome) -> None:
        """Nothing to do."""

    def localise(self, order: Order, home: Welcome) -> tuple[str, ProcessSpec | None]:
        return self._root or home.data_root, order.spec

    def stage_in(self, entry: Entry, staged_in: StagedIn) -> None:  # noqa: ARG002
        staged_in(None)

    def watch(self, entry: Entry, lost: Callable[[], None]) -> None:
        """It cannot get lost."""

    def stage_out(self, entry: Entry, staged_out: StagedOut, waiting: Waiting) -> None:  # noqa: ARG002
        staged_out("")

    def give_up(self, entry: Entry) -> None:
        """There is nothing to wait for."""

    def release(self, live: Collection[Entry]) -> None:
        """There is nothing to delete."""
