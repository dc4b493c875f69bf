"""Reading many blobs from one git process, in the order they are asked for."""

from collections.abc import Iterator, Sequence

from pit_server.store.git import BLOCK, Git, GitFailed


class Blobs:
    """Call `next_blob` once for each of the names, and read what it gives to the end before the next."""

    def __init__(self, git: Git, names: Sequence[str]) -> None:
        asked = "".join(f"{name}\n" for name in names)
        self._blocks = git.stream("cat-file", "--batch", "--buffer", text=asked) if names else iter(())
        self._rest = b""

    def next_blob(self) -> Iterator[bytes]:
        """The content of the next blob in pieces."""
        while b"\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\n")
        if head.endswith(b" missing"):
            raise GitFailed(f"object {head.decode(errors='replace')}")
        left = int(head.split()[2])
        while left:
            if not self._rest:
                self._more()
            piece, self._rest = self._rest[:left], self._rest[left:]
            left -= len(piece)
            yield piece
        if not self._rest:
            self._more()
        self._rest = self._rest[1:]  # the newline behind it

    def whole(self, limit: int = BLOCK) -> bytes:
        """The next blob at once; of a longer one only its beginning."""
        content = b""
        for piece in self.next_blob():
            content += piece[: limit - len(content)]
        return content

    def _more(self) -> None:
        block = next(self._blocks, b"")
        if not block:
            raise GitFailed("git cat-file ended too early")
        self._rest += block
