"""Reading many blobs from one git process, in the order they are requested."""

from collections.abc import Iterator, Sequence

from pit_server.store.git.command import BLOCK, Git, GitFailed


class Blobs:
    """Call `next_blob` once per name, and read each blob to its end before the next."""

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
        self._rest = self._rest[1:]  # the newline after it

    def whole(self, limit: int = BLOCK) -> bytes:
        """The next blob as bytes, cut to `limit`."""
        content = b""
        for piece in self.next_blob():
            content += piece[: limit - len(content)]
        return content

    def _more(self) -> None:
        block = next(self._blocks, b"")
        if not block:
            raise GitFailed("git cat-file ended too early")
        self._rest += block
