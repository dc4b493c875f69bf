"""The figure of docs/scheduling.md, drawn from its first table: `make docs` writes it, a test compares it."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "scheduling.md"
FIGURE = PAGE.with_name("scheduling.svg")
POLICIES = ("FIFO", "EASY", "pit")
# Title, column of the table, end of the scale, text of a value.
PANELS = (
    ("utilisation of GPUs", 2, 100.0, "{:.0f} %"),
    ("mean wait (bars of FIFO are cut)", 3, 2.5, "{:.2f} h"),
    ("95th percentile of waits (bars of FIFO are cut)", 4, 16.0, "{:.1f} h"),
    ("fairness between users", 7, 1.0, "{:.3f}"),
)
WIDTH, HEIGHT, PANEL, LABEL, BAR = 880, 430, 440, 80, 14
# Its own paper, because a page cannot tell a picture which of its colors are in use.
STYLE = """
text { font: 12px sans-serif; fill: #1f2328 }
.title { font-weight: bold }
.FIFO { fill: #b0b7c3 } .EASY { fill: #7d9bd1 } .pit { fill: #2f4fb5 }
.paper { fill: #fff }
"""


@dataclass(frozen=True)
class Row:
    load: str
    policy: str
    cells: tuple[str, ...]

    def value(self, column: int) -> float:
        return float(re.sub(r"[^\d.]", "", self.cells[column]))


def rows() -> list[Row]:
    table = PAGE.read_text().partition("| load | policy |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [tuple(cell.strip(" *") for cell in line.strip("|").split("|")) for line in table]
    return [Row(each[0], each[1], each) for each in cells]


def render() -> str:
    drawn = "\n".join(line for index, panel in enumerate(PANELS) for line in _panel(index, *panel))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="FIFO, EASY and pit on the GPU trace">\n<style>{STYLE}</style>\n'
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>\n{drawn}\n</svg>\n'
    )


def _panel(index: int, title: str, column: int, end: float, text: str) -> Iterator[str]:
    left, top = index % 2 * PANEL, index // 2 * (HEIGHT // 2)
    yield f'<text class="title" x="{left + LABEL}" y="{top + 18}">{title}</text>'
    y = top + 28
    for row in rows():
        if row.policy == POLICIES[0]:
            yield f'<text x="{left + 4}" y="{y + BAR - 3}">load {row.load}</text>'
        value = row.value(column)
        width = min(1.0, value / end) * (PANEL - LABEL - 110)
        size = f'width="{width:.1f}" height="{BAR - 2}"'
        yield f'<rect class="{row.policy}" x="{left + LABEL}" y="{y}" {size}/>'
        label = f"{row.policy} {text.format(value)}"
        yield f'<text x="{left + LABEL + width + 5:.1f}" y="{y + BAR - 3}">{label}</text>'
        y += BAR + (10 if row.policy == POLICIES[-1] else 2)


if __name__ == "__main__":
    FIGURE.write_text(render())
    sys.stdout.write(f"{FIGURE} is written\n")
