"""Upload a pack in pieces, so that a broken connection costs only one of them."""

from pathlib import Path

from pit.head.client import Head
from pit.head.retry import with_retry
from pit.snapshot.capture import digest
from pit.ui.progress import Bar, bars

PIECE = 8 * 1024 * 1024


def send(head: Head, body: Path) -> None:
    """Upload a file under its hash; what an earlier attempt has sent is not sent again."""
    name, size = digest(body), body.stat().st_size
    with bars() as shown:
        bar = shown.begin("sending", size)
        while not with_retry(lambda: _send_rest(head, name, body, bar)):
            pass  # another client is sending the same pack: ask how far it is, and go on from there


def _send_rest(head: Head, name: str, body: Path, bar: Bar) -> bool:
    known = head.uploaded(name)
    if known.complete:
        return True
    size, offset = body.stat().st_size, known.size
    bar.advance(offset - bar.done)
    with body.open("rb") as file:
        while True:
            file.seek(offset)
            piece = file.read(PIECE)
            answer = with_retry(lambda piece=piece, offset=offset: head.upload(name, piece, offset, size))  # type: ignore[misc]
            if answer.complete:
                return True
            if answer.size != offset + len(piece):
                return False
            offset += len(piece)
            bar.advance(len(piece))
