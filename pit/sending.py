"""Bodies on their way to the head: in pieces, so that a broken connection costs one of them."""

from pathlib import Path

from pit.head import Head
from pit.patience import persist
from pit.progress import Bar, bars
from pit.snapshot import digest

PIECE = 8 * 1024 * 1024


def send(head: Head, body: Path) -> None:
    """Upload a file under its hash; what an earlier try has brought is not sent again."""
    name, size = digest(body), body.stat().st_size
    with bars() as shown:
        bar = shown.begin("sending", size)
        while not persist(lambda: _send_rest(head, name, body, bar)):
            pass  # the head has another part of it than was thought: somebody else sends it too


def _send_rest(head: Head, name: str, body: Path, bar: Bar) -> bool:
    known = head.uploaded(name)
    if known["complete"]:
        return True
    size, offset = body.stat().st_size, int(known["size"])
    bar.advance(offset - bar.done)
    with body.open("rb") as file:
        while True:
            file.seek(offset)
            piece = file.read(PIECE)
            answer = persist(lambda piece=piece, offset=offset: head.upload(name, piece, offset, size))  # type: ignore[misc]
            if answer["complete"]:
                return True
            if int(answer["size"]) != offset + len(piece):
                return False
            offset += len(piece)
            bar.advance(len(piece))
