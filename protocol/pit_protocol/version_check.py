"""Which protocol the other side speaks: a mismatch is one sentence that says which side to upgrade."""

from pit_protocol import PROTOCOL
from pit_protocol.problem import Problem

HEADER = "Pit-Protocol"  # in requests of client and worker, and in every answer of the head
HEADERS = {HEADER: str(PROTOCOL)}
FIRST = 1  # of versions that sent no header
LONGEST = 6  # digits


def check_protocol(told: str | None, other: str, me: str) -> None:
    """Raise a Problem unless the other side (`client`, `head`, `worker`) speaks the protocol of this one."""
    is_number = told is not None and told.isascii() and told.isdecimal() and len(told) <= LONGEST
    number = int(told) if told is not None and is_number else FIRST
    if number == PROTOCOL:
        return
    older = other if number < PROTOCOL else me
    raise Problem(
        "protocol_mismatch",
        f"the {other} speaks protocol {number} and the {me} protocol {PROTOCOL}: upgrade the {older}",
        "`pip install -U gitpit` there; the head comes first, then the workers, then the clients",
        status=426,
    )
