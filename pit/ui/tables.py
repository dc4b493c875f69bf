"""Tables: coloured and fitted to the width on a terminal, plain and stable in a pipe.

`rich` is imported only for a terminal; in a pipe it would double the run time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

GAP = 2
NOTE_INDENT = 5
MIN_WIDTH = 12  # of a flexible column

Row = Sequence[str]


@dataclass(frozen=True)
class Column:
    name: str
    right: bool = False
    flexible: bool = False  # may be truncated on a narrow terminal
    # A narrow terminal loses the least important column first; of equal ones, the last.
    importance: int = 1
    styles: Mapping[str, str] = field(default_factory=dict)  # cell -> colour


@dataclass(frozen=True)
class Section:
    """Rows under a title; `more` is the number of rows not shown."""

    title: str
    rows: Sequence[Row]
    more: int = 0
    notes: Mapping[int, str] = field(default_factory=dict)  # position of a row -> a line below it
    more_of: Mapping[int, str] = field(default_factory=dict)  # the same -> what shows a note that is cut


def render_plain(columns: Sequence[Column], sections: Sequence[Section]) -> str:
    """The table as text that does not depend on the terminal."""
    rows = [[column.name for column in columns], *(row for section in sections for row in section.rows)]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    aligned = zip(columns, widths, strict=True)
    line = (" " * GAP).join(f"{{:{'>' if column.right else '<'}{width}}}" for column, width in aligned).format
    lines = [line(*rows[0]).rstrip()]
    for section in sections:
        if section.title:
            lines.append(section.title)
        for position, row in enumerate(section.rows):
            lines.append(line(*row).rstrip())
            if note := section.notes.get(position):
                lines.append(" " * NOTE_INDENT + note)
        if section.more:
            lines.append(more_line(section.more))
    return "\n".join(lines)


def render_rich(columns: Sequence[Column], sections: Sequence[Section], width: int) -> "RenderableType":
    """The table for a terminal of `width` cells."""
    from rich.console import Group
    from rich.text import Text

    shown = _shown(columns, [row for section in sections for row in section.rows], width)
    columns = [columns[i] for i in shown]
    sections = [
        replace(section, rows=[[row[i] for i in shown] for row in section.rows]) for section in sections
    ]
    widths = _fit(columns, [row for section in sections for row in section.rows], width)
    parts: list[RenderableType] = [_grid(columns, widths, (), show_header=True)]
    for section in sections:
        if section.title:
            parts.append(Text(section.title, style="bold"))
        parts += _rows(columns, widths, section, width)
        if section.more:
            parts.append(Text(more_line(section.more), style="dim"))
    return Group(*parts)


def _rows(
    columns: Sequence[Column], widths: Sequence[int], section: Section, width: int
) -> "list[RenderableType]":
    """The rows in grids of equal widths, each up to a row with a note, which is cut or wrapped."""
    from rich.padding import Padding
    from rich.text import Text

    parts: list[RenderableType] = []
    begin = 0
    for end in sorted({*(position + 1 for position in section.notes), len(section.rows)}):
        if rows := section.rows[begin:end]:
            parts.append(_grid(columns, widths, rows, show_header=False))
        if note := section.notes.get(end - 1):
            note = _cut_note(note, section.more_of.get(end - 1, ""), width - NOTE_INDENT)
            parts.append(Padding(Text(note, style="dim"), (0, 0, 0, NOTE_INDENT)))
        begin = end
    return parts


def _cut_note(note: str, more_of: str, width: int) -> str:
    """The note on one line that ends with what shows all of it; as it is if nothing does."""
    from rich.cells import cell_len, set_cell_size

    end = f"… {more_of}"
    if not more_of or cell_len(note) <= width or width <= cell_len(end):
        return note
    return set_cell_size(note, width - cell_len(end)).rstrip(" ;,:") + end


def more_line(count: int) -> str:
    return f"… and {count:,} more"


def _natural_widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    from rich.cells import cell_len

    return [max([len(column.name), *(cell_len(row[i]) for row in rows)]) for i, column in enumerate(columns)]


def _shown(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    """The columns that fit: dropped are the least important, so that no other loses letters."""
    least = [
        min(natural, MIN_WIDTH) if column.flexible else natural
        for column, natural in zip(columns, _natural_widths(columns, rows), strict=True)
    ]
    shown = list(range(len(columns)))
    while len(shown) > 1 and sum(least[i] + GAP for i in shown) - GAP > width:
        shown.remove(min(shown, key=lambda i: (columns[i].importance, -i)))
    return shown


def _fit(columns: Sequence[Column], rows: Sequence[Row], width: int) -> list[int]:
    """The width of each column; flexible columns share the space that the others leave."""
    widths = _natural_widths(columns, rows)
    flexible = [i for i, column in enumerate(columns) if column.flexible]
    left = width - sum(widths[i] for i in range(len(columns)) if i not in flexible) - GAP * (len(columns) - 1)
    # The narrowest first, so that the others can use the space it does not need.
    for done, i in enumerate(sorted(flexible, key=lambda i: widths[i])):
        widths[i] = max(min(widths[i], MIN_WIDTH), min(widths[i], left // (len(flexible) - done)))
        left -= widths[i]
    return widths


def _grid(
    columns: Sequence[Column], widths: Sequence[int], rows: Sequence[Row], *, show_header: bool
) -> "Table":
    from rich.table import Table
    from rich.text import Text

    grid = Table(
        box=None, show_header=show_header, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim"
    )
    for column, width in zip(columns, widths, strict=True):
        justify = "right" if column.right else "left"
        grid.add_column(column.name, width=width, no_wrap=True, overflow="ellipsis", justify=justify)  # type: ignore[arg-type]
    for row in rows:
        cells = zip(columns, row, strict=True)
        grid.add_row(*(Text(cell, style=column.styles.get(cell, "")) for column, cell in cells))
    return grid
