"""Makes values of what the grammar recognised; a value that breaks a rule is blamed on its place."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from lark import Token, Transformer, v_args

from pit_grammar.errors import BrokenRule, shorten
from pit_grammar.request import LARGEST, UNITS, Count, Need, Placement, ProcessGroup, Request, too_large

Value = TypeVar("Value")


class Placed(NamedTuple, Generic[Value]):
    """A value and where in the text it begins."""

    position: int
    value: Value


class Written(NamedTuple):
    """A count as it stands in the text: one number, or two of a range."""

    low: Token
    high: Token | None


@v_args(inline=True)
class Builder(Transformer[Token, Request]):
    """One method for each rule of request.lark; raises BrokenRule with its position."""

    def request(self, *groups: Placed[ProcessGroup]) -> Request:
        totals = accumulate(group.value.count.high for group in groups)
        beyond = (group for group, total in zip(groups, totals, strict=True) if total > LARGEST)
        with _blame(next(beyond, groups[0]).position):
            return Request(tuple(group.value for group in groups))

    def process_group(
        self, count: Written | None, process: Placed[tuple[Need, ...]], placement: Placement | None
    ) -> Placed[ProcessGroup]:
        position = process.position if count is None else _position(count.low)
        with _blame(position):
            return Placed(position, ProcessGroup(_count(count), process.value, placement))

    def process(self, opening: Token, *needs: Placed[Need]) -> Placed[tuple[Need, ...]]:
        by_kind: dict[str, Need] = {}
        for position, need in needs:
            with _blame(position):
                known = by_kind.get(need.kind)
                by_kind[need.kind] = known.plus(need) if known else need
        return Placed(_position(opening), tuple(by_kind.values()))

    def need(self, count: Written | None, kind: Token) -> Placed[Need]:
        position = _position(kind if count is None else count.low)
        with _blame(position):
            return Placed(position, Need(str(kind), _amount(count, kind)))

    def placement(self, name: Token, value: Token | None) -> Placement:
        return Placement(str(name), None if value is None else str(value))

    def count(self, low: Token, high: Token | None) -> Written:
        return Written(low, high)


def _amount(count: Written | None, kind: Token) -> Count | Decimal:
    if kind.lower() not in UNITS:
        return _count(count)
    if count is None:
        return Decimal(1)
    if count.high is None:
        return Decimal(_checked(count.low))
    written = f"{shorten(count.low)}-{shorten(count.high)}"
    message = f"{kind} cannot be elastic; write one number instead of {written}"
    raise BrokenRule(message, "one number", f"[4:{kind.lower()}]")


def _count(count: Written | None) -> Count:
    return Count(1, 1) if count is None else Count(_whole(count.low), _whole(count.high or count.low))


def _whole(number: Token) -> int:
    with _blame(_position(number)):
        if "." in number:
            message = f"{shorten(number)} is no whole number; only cpu and mem take fractions"
            raise BrokenRule(message, "a whole number", "2:[a100,0.5:cpu]")
        return int(_checked(number))


def _checked(number: Token) -> str:
    # Before any arithmetic: `int` refuses thousands of digits with a ValueError of its own.
    whole, point, fraction = number.partition(".")
    digits = whole.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST)):
        raise too_large(number)
    return digits + point + fraction


@contextmanager
def _blame(position: int) -> Iterator[None]:
    """Give a broken rule its place in the text, unless a smaller part has already taken the blame."""
    try:
        yield
    except BrokenRule as rule:
        if rule.position is None:
            rule.position = position
        raise


def _position(token: Token) -> int:
    return token.start_pos or 0
