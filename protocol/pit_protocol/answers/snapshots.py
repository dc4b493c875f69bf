"""What the head answers before a snapshot is sent; an older client ignores fields that it does not know."""

from pit_protocol.messages.submission import MissingObjects, Snapshot
from pit_protocol.wire import Answer


class OfferAnswer(Answer, frozen=True):
    """The answer to an offer."""

    complete: bool  # the head has the whole tree: nothing has to be sent
    base: str | None  # commit that the head has or will fetch: its objects need not be sent
    why: str = ""  # why the head cannot use the remote, as a sentence; empty: it can, or none was named


class MissingAnswer(MissingObjects, frozen=True, forbid_unknown_fields=False):
    """Which of the objects and LFS files that a client named are not on the head."""


class RemoteSnapshot(Snapshot, frozen=True, forbid_unknown_fields=False):
    """What a ref of a remote names, ready to be submitted."""
