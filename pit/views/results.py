"""Results of an array or a job, as a table or as CSV."""

import csv
import io
from collections.abc import Sequence

from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.views.job.table import STATE_STYLES
from pit_protocol.answers.jobs import ArrayElement, ElementList
from pit_protocol.states import JobState, Outcome, letters

NONE = "-"
BEST = "*"


def sort_elements(elements: Sequence[ArrayElement], name: str, *, reverse: bool) -> list[ArrayElement]:
    """By a result or a value of the sweep, numbers first; elements that do not have it come last."""
    having = [element for element in elements if _get(element, name) is not None]
    others = [element for element in elements if _get(element, name) is None]
    return [*sorted(having, key=lambda element: _key(element, name), reverse=reverse), *others]


def has_name(elements: Sequence[ArrayElement], name: str) -> bool:
    return any(_get(element, name) is not None for element in elements)


def list_names(elements: Sequence[ArrayElement]) -> list[str]:
    """The columns: values of the sweep, then results."""
    sweep = dict.fromkeys(name for element in elements for name in element.sweep)
    return list(sweep | dict.fromkeys(name for element in elements for name in element.results))


def columns(names: Sequence[str]) -> list[Column]:
    return [
        Column("", importance=9),
        Column("ELEMENT", right=True, importance=9),
        Column("S", styles=STATE_STYLES, importance=8),
        *(Column(sanitize(name), right=True, importance=5) for name in names),
    ]


def section(number: int, elements: Sequence[ArrayElement], names: Sequence[str], best: str | None) -> Section:
    """A row for each element; the first is marked if it is the best by the name."""
    rows = []
    for position, element in enumerate(elements):
        is_best = best is not None and position == 0 and _get(element, best) is not None
        index = str(number) if element.index is None else f"{number}.{element.index}"
        cells = (_text(_get(element, name)) for name in names)
        rows.append((BEST if is_best else "", index, _letters(element), *cells))
    return Section("", rows)


def csv_text(elements: Sequence[ArrayElement], names: Sequence[str]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["index", "state", *names])
    for element in elements:
        values = (_get(element, name) for name in names)
        index = "" if element.index is None else element.index
        writer.writerow(
            [index, element.outcome or element.state, *("" if v is None else _text(v) for v in values)]
        )
    return file.getvalue()


def sorted_list(found: ElementList, elements: Sequence[ArrayElement]) -> ElementList:
    return ElementList(list(elements), found.number)


def _get(element: ArrayElement, name: str) -> object:
    value = element.results.get(name)
    return element.sweep.get(name) if value is None else value


def _key(element: ArrayElement, name: str) -> tuple[bool, float, str]:
    value = _get(element, name)
    try:
        return False, float(str(value)), ""
    except ValueError:
        return True, 0.0, str(value)


def _text(value: object) -> str:
    if value is None:
        return NONE
    return f"{value:g}" if isinstance(value, float) else sanitize(str(value))


def _letters(element: ArrayElement) -> str:
    outcome = Outcome(element.outcome) if element.outcome else None
    return letters(JobState(element.state), outcome)
