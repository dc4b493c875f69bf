"""How data comes to a process and back: the interface, and the way of nodes that see the head's own files."""

from collections.abc import Callable, Collection
from typing import Protocol

from pit_protocol.beat import Order, ProcessSpec, Welcome
from pit_worker.entry import Entry
from pit_worker.environment import StartRefused

Fetched = Callable[[StartRefused | OSError | None], None]
Delivered = Callable[[str], None]
Waiting = Callable[[str], None]


class Carrier(Protocol):
    """None of it keeps the loop waiting: what takes long is told later, in the loop."""

    @property
    def trouble(self) -> str:
        """Why the node should take no new processes; empty if it may."""

    def welcome(self, welcome: Welcome) -> None:
        """A session has begun: from now on the head can be asked."""

    def localise(self, order: Order, home: Welcome) -> tuple[str, ProcessSpec | None]:
        """The root of a process's data on this node, and its spec with paths below that."""

    def fetch(self, entry: Entry, fetched: Fetched) -> None:
        """See that its data is there, and tell None; or why not, as a runtime tells of a start."""

    def attend(self, entry: Entry, lost: Callable[[], None]) -> None:
        """Call `lost` if a running process loses its data."""

    def deliver(self, entry: Entry, delivered: Delivered, waiting: Waiting) -> None:
        """See that all it has written is on the head, and tell nothing; or what of it stays here, in words.

        `waiting` is told why that takes so long.
        """

    def give_up(self, entry: Entry) -> None:
        """Wait no longer for a head that refuses what it has written."""

    def release(self, live: Collection[Entry]) -> None:
        """Clear away the data of all processes but these."""


class AtHand:
    """The head's files are here, on the same path or another one: there is nothing to carry."""

    trouble = ""

    def __init__(self, root: str) -> None:
        self._root = root

    def welcome(self, welcome: Welcome) -> None:
        """Nothing to be asked."""

    def localise(self, order: Order, home: Welcome) -> tuple[str, ProcessSpec | None]:
        return self._root or home.data_root, order.spec

    def fetch(self, entry: Entry, fetched: Fetched) -> None:  # noqa: ARG002
        fetched(None)

    def attend(self, entry: Entry, lost: Callable[[], None]) -> None:
        """It is not lost."""

    def deliver(self, entry: Entry, delivered: Delivered, waiting: Waiting) -> None:  # noqa: ARG002
        delivered("")

    def give_up(self, entry: Entry) -> None:
        """Nothing is waited for."""

    def release(self, live: Collection[Entry]) -> None:
        """Nothing is kept here."""
