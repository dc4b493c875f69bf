"""Lines at the bottom of a terminal that are redrawn in place, while others scroll by above them."""

import shutil
from collections.abc import Callable, Sequence

from pit.ui.sanitize import split_colour

CLEAR_BELOW = "\x1b[J"
UP = "\x1b[{}A"
RESET = "\x1b[0m"


class LiveArea:
    """The area and what is in it; no other output may come in between without `clear`."""

    def __init__(
        self,
        write: Callable[[str], None],
        size: Callable[[], tuple[int, int]] = lambda: shutil.get_terminal_size(),
    ) -> None:
        self._write = write
        self._size = size
        self._drawn: list[int] = []  # the width of each row in cells

    @property
    def columns(self) -> int:
        return self._size()[0]

    def show(self, above: Sequence[str], rows: Sequence[str]) -> None:
        """Print lines above the area, and redraw it with these rows."""
        columns, _ = self._size()
        fitted = [fit(row, columns - 1) for row in self._most(rows)]
        text = self._cleared() + "".join(f"{line}\n" for line in above) + "\n".join(fitted)
        if text:
            self._write(text)
        self._drawn = [width(row) for row in fitted]

    def clear(self) -> None:
        """Remove the area, so that something else can be printed."""
        self.show([], [])

    def leave(self) -> None:
        """Leave what is shown on the screen, and go on below it."""
        if self._drawn:
            self._write("\n")
        self._drawn = []

    def _most(self, rows: Sequence[str]) -> Sequence[str]:
        # At least half of the screen is for lines that stay.
        most = max(self._size()[1] // 2, 1)
        if len(rows) <= most:
            return rows
        return [*rows[: most - 1], f"... and {len(rows) - most + 1} more"]

    def _cleared(self) -> str:
        if not self._drawn:
            return ""
        # A terminal that was made narrower has wrapped the rows.
        columns, _ = self._size()
        height = sum(max(-(-cells // columns), 1) for cells in self._drawn)
        return "\r" + (UP.format(height - 1) if height > 1 else "") + CLEAR_BELOW


def width(text: str) -> int:
    """How many cells the text takes on a terminal."""
    return sum(_cells(piece) for piece, is_colour in split_colour(text) if not is_colour)


def fit(text: str, columns: int) -> str:
    """The text cut to a number of cells, with `…` at its end if it was cut; colours take none."""
    text = text.expandtabs()
    if width(text) <= columns:
        return text
    left = columns - 1
    pieces = []
    for piece, is_colour in split_colour(text):
        kept = piece
        if not is_colour:
            while _cells(kept) > left:
                kept = kept[: min(left, len(kept) - 1)]
            left -= _cells(kept)
        pieces.append(kept)
        if kept != piece:
            break
    return "".join(pieces) + "…" + (RESET if len(pieces) > 1 else "")


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
