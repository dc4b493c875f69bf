"""Which elements an array has: indices as `0-99%8`, and the values of a sweep as `lr=1e-3,1e-4`."""

import re
from array import array as packed
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from math import prod
from typing import NamedTuple

from pit_protocol.arrays.numbers import MAX_INDEX
from pit_protocol.problem import Problem
from pit_protocol.variables import check_job_variables

MAX_ELEMENTS = 100_000
MAX_TEXT = 64 * 1024  # characters of all that describes one array
MAX_AXES = 20  # variables of a sweep
FORMS = "write a range 0-99, a step 0-90:10 or a list 0,3,7-9, and %8 for at most 8 at a time"
_ARRAY = re.compile(r"(?P<indices>[^/%]*)(?:/(?P<size>[0-9]{1,7}))?(?:%(?P<limit>[0-9]{1,7}))?")
_RANGE = re.compile(r"(0|[1-9][0-9]{0,8})(?:-(0|[1-9][0-9]{0,8})(?::([1-9][0-9]{0,8}))?)?")


class Axis(NamedTuple):
    """One variable of a sweep."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Elements:
    """The elements of one array."""

    indices: Sequence[int]  # ascending
    size: int  # `PIT_ARRAY_SIZE`; more than there are indices if these are part of a larger array
    limit: int | None = None  # that may run at a time
    axes: tuple[Axis, ...] = ()  # of a sweep; the last varies fastest

    def __contains__(self, index: int) -> bool:
        return self.following(index - 1) == index

    def following(self, index: int) -> int | None:
        """The first index after this one."""
        position = bisect_left(self.indices, index + 1)
        return self.indices[position] if position < len(self.indices) else None

    def list_from(self, index: int, most: int) -> list[int]:
        """The first indices from this one on."""
        return list(islice(self.indices, position := bisect_left(self.indices, index), position + most))

    def values(self, index: int) -> dict[str, str]:
        """What the variables of the sweep are for one element."""
        found = {}
        for axis in reversed(self.axes):
            index, place = divmod(index, len(axis.values))
            found[axis.name] = axis.values[place]
        return dict(reversed(found.items()))


def parse_elements(array: str | None, sweep: Sequence[str] = ()) -> Elements | None:
    """The elements that the options of a job describe; None if it is not an array. Raises a Problem."""
    return None if array is None and not sweep else _parse(array, tuple(sweep))


@lru_cache(maxsize=64)
def _parse(array: str | None, sweep: tuple[str, ...]) -> Elements:
    if sum(map(len, (array or "", *sweep))) > MAX_TEXT:
        raise _bad(f"an array is described by at most {MAX_TEXT:,} characters", "use ranges such as 0-99")
    axes = _parse_axes(sweep)
    match = _ARRAY.fullmatch(array or "")
    if match is None or not (match["indices"] or axes):
        raise _bad(f"{(array or '')[:80]!r} names no elements", FORMS)
    whole = prod(len(axis.values) for axis in axes)
    if axes:
        _check_count(whole)
    indices = _parse_indices(match["indices"]) if match["indices"] else range(whole)
    size = whole if axes else int(match["size"] or len(indices))
    if axes and indices[-1] >= whole:
        raise _bad(
            f"the sweep has {whole:,} elements, and there is no {indices[-1]}", f"the last is {whole - 1}"
        )
    if size < len(indices):
        raise _bad(f"{len(indices):,} elements cannot be part of {size:,}", "leave out /SIZE")
    limit = int(match["limit"]) if match["limit"] else None
    if limit == 0:
        raise _bad("%0 would let no element run", "write at least %1, or leave it out")
    return Elements(indices, size, limit, axes)


def check_names(axes: Sequence[Axis], env: Mapping[str, str], secrets: Mapping[str, str]) -> None:
    """Refuse variables of a sweep that are not valid, that pit sets, or that are given otherwise too."""
    for axis in axes:
        if axis.name in env or axis.name in secrets:
            raise _bad(f"{axis.name} is given both by --sweep and by another option", "give it once")
    check_job_variables({axis.name: max(axis.values, key=len) for axis in axes} | dict(env), secrets)


def only(array: str | None, sweep: Sequence[str], indices: Sequence[int]) -> str:
    """The text that names these elements of an array, with its size and its limit."""
    whole = parse_elements(array, sweep)
    assert whole is not None  # noqa: S101 - the caller has an array
    size = "" if sweep else f"/{whole.size}"
    return ",".join(_runs(indices)) + size + (f"%{whole.limit}" if whole.limit and len(indices) > 1 else "")


def _runs(indices: Sequence[int]) -> list[str]:
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] + 1 == index:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]


def _parse_indices(text: str) -> Sequence[int]:
    found = packed("i")
    for part in text.split(","):
        found.extend(_parse_range(part))
        _check_count(len(found))
    ordered = packed("i", sorted(found))
    for one, other in pairwise(ordered):
        if one == other:
            raise _bad(f"{text[:80]!r} names element {one} twice", "ranges must not overlap")
    return ordered


def _parse_range(part: str) -> range:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise _bad(f"{part[:80]!r} is not a range of elements", FORMS)
    first = int(match[1])
    last, step = int(match[2] or first), int(match[3] or 1)
    if last < first:
        raise _bad(f"the range {part} is empty", f"write {last}-{first}")
    if last > MAX_INDEX:
        raise _bad(f"there is no element {last}", f"the largest index is {MAX_INDEX}")
    _check_count((last - first) // step + 1)
    return range(first, last + 1, step)


def _parse_axes(sweep: Sequence[str]) -> tuple[Axis, ...]:
    if len(sweep) > MAX_AXES:
        raise _bad(f"a sweep has at most {MAX_AXES} variables, not {len(sweep)}")
    axes: list[Axis] = []
    for text in sweep:
        name, equals, values = text.partition("=")
        if not equals or not name:
            raise _bad(
                f"{text[:80]!r} is not a variable with values", "write --sweep lr=1e-3,1e-4 or seed=0-9"
            )
        if any(name == axis.name for axis in axes):
            raise _bad(f"--sweep {name[:80]} is given twice", f"put all values into one: {name[:80]}=A,B,C")
        axes.append(Axis(name, _parse_values(name, values)))
    return tuple(axes)


def _parse_values(name: str, text: str) -> tuple[str, ...]:
    found: list[str] = []
    for part in text.split(","):
        is_range = "-" in part and _RANGE.fullmatch(part)
        found += map(str, _parse_range(part)) if is_range else [part]
        _check_count(len(found))
    if "" in found:
        raise _bad(f"--sweep {name[:80]} has an empty value", "write values with commas between them")
    if twice := [value for value, count in Counter(found).items() if count > 1]:
        raise _bad(f"--sweep {name[:80]} has the value {twice[0][:80]} twice", "values must not overlap")
    return tuple(found)


def _check_count(count: int) -> None:
    if count > MAX_ELEMENTS:
        raise _bad(
            f"an array has at most {MAX_ELEMENTS:,} elements, and this has {count:,}",
            "submit several arrays, or let each element do more",
        )


def _bad(message: str, hint: str = "") -> Problem:
    return Problem("bad_array", message, hint, status=422)
