"""The result rows of the benchmarks, and the table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Row:
    what: str
    measured: str
    floor: str = "-"
    ratio: float | None = None
    goal: str = "-"
    is_met: bool | None = None


def seconds(call: Callable[[], object]) -> float:
    begun = perf_counter()
    call()
    return perf_counter() - begun


def decimal_bytes(count: int) -> str:
    return f"{count / 1e9:g} GB" if count >= 1e9 else f"{count / 1e6:g} MB"


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(math.ceil(share * len(ordered)), len(ordered)) - 1]


def ratio_row(what: str, measured: float, floor: float, goal: float) -> Row:
    ratio = measured / floor
    return Row(
        what, f"{measured * 1000:.0f} ms", f"{floor * 1000:.0f} ms", ratio, f"≤ {goal:.3g} ×", ratio <= goal
    )


def time_row(what: str, measured: float, goal_s: float, floor: float | None = None) -> Row:
    return Row(
        what,
        f"{measured * 1000:.0f} ms",
        f"{floor * 1000:.0f} ms" if floor else "-",
        measured / floor if floor else None,
        f"≤ {goal_s * 1000:.0f} ms",
        measured <= goal_s,
    )


def render(rows: Sequence[Row]) -> str:
    cells = [("figure", "measured", "floor", "ratio", "goal", "met")]
    for row in rows:
        met = {True: "yes", False: "NO", None: "-"}[row.is_met]
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        cells.append((row.what, row.measured, row.floor, ratio, row.goal, met))
    widths = [max(len(line[column]) for line in cells) for column in range(6)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
