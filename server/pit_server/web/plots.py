"""Plots as numbers: where the template draws points and lines."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pit_protocol.answers.jobs import ArrayElement

WIDTH, HEIGHT = 320.0, 200.0
MOST_POINTS = 2_000
MOST_AXES = 8


class Point(NamedTuple):
    x: float
    y: float
    label: str
    is_best: bool


class Scatter(NamedTuple):
    x_name: str
    y_name: str
    points: list[Point]
    x_ends: tuple[str, str]
    y_ends: tuple[str, str]


class Line(NamedTuple):
    points: str  # of a polyline
    label: str
    is_best: bool


class Parallel(NamedTuple):
    axes: list[tuple[float, str, str, str]]  # where, name, least, most
    lines: list[Line]


def number(value: object) -> float | None:
    """A result or a swept value as a number, if it is one."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = float(str(value))
    except ValueError:
        return None
    return found if abs(found) < float("inf") else None


def scatter(rows: Sequence[ArrayElement], axis: str, metric: str, best: ArrayElement) -> Scatter:
    """A swept value against a result."""
    place, x_ends = _scale([row.sweep.get(axis) for row in rows])
    height, y_ends = _scale([row.results.get(metric) for row in rows])
    points = []
    for row in rows[:MOST_POINTS]:
        x, y = place(row.sweep.get(axis)), height(row.results.get(metric))
        if x is not None and y is not None:
            points.append(Point(x * WIDTH, (1 - y) * HEIGHT, _label(row), row is best))
    return Scatter(axis, metric, points, x_ends, y_ends)


def parallel(rows: Sequence[ArrayElement], names: Sequence[str], best: ArrayElement) -> Parallel:
    """A line per element through all its values and results."""
    shown = list(names)[:MOST_AXES]
    step = 2 * WIDTH / max(len(shown) - 1, 1)
    scales = {name: _scale([_value(row, name) for row in rows]) for name in shown}
    lines = []
    for row in rows[:MOST_POINTS]:
        heights = [scales[name][0](_value(row, name)) for name in shown]
        if None not in heights:
            points = " ".join(f"{i * step:.1f},{(1 - (y or 0)) * HEIGHT:.1f}" for i, y in enumerate(heights))
            lines.append(Line(points, _label(row), row is best))
    axes = [(i * step, name, *scales[name][1]) for i, name in enumerate(shown)]
    return Parallel(axes, sorted(lines, key=lambda line: line.is_best))


def _value(row: ArrayElement, name: str) -> object:
    return row.sweep.get(name, row.results.get(name))


def _label(row: ArrayElement) -> str:
    values = {**row.sweep, **row.results}
    return f"element {row.index}: " + ", ".join(f"{name}={value}" for name, value in values.items())


def _scale(values: Sequence[object]) -> tuple[Callable[[object], float | None], tuple[str, str]]:
    """From a value to 0…1, and the texts at both ends; texts lie in the order of their names."""
    numbers = [found for value in values if (found := number(value)) is not None]
    known = [value for value in values if value is not None]
    if len(numbers) == len(known) and numbers:
        low, high = min(numbers), max(numbers)
        is_wide = low > 0 and high / low >= 100  # as learning rates are
        return _linear(low, high, is_log=is_wide), (f"{low:g}", f"{high:g}")
    names = sorted({str(value) for value in known})
    places = {name: (i + 0.5) / len(names) for i, name in enumerate(names)}
    ends = (names[0][:20], names[-1][:20]) if names else ("", "")
    return lambda value: places.get(str(value)), ends


def _linear(low: float, high: float, *, is_log: bool) -> Callable[[object], float | None]:
    def place(value: object) -> float | None:
        found = number(value)
        if found is None:
            return None
        if high == low:
            return 0.5
        if is_log:
            return _log(found / low) / _log(high / low)
        return (found - low) / (high - low)

    return place


def _log(ratio: float) -> float:
    return math.log(max(ratio, 1e-300))
