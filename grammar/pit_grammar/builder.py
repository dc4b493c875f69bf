"""Build values from Lark's parse tree; an error about a value gets the value's position."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from lark import Token, Transformer, v_args

from pit_grammar.errors import RuleError, shorten
from pit_grammar.request import MAX_COUNT, UNITS, Count, Need, Placement, ProcessGroup, Request, too_large

Value = TypeVar("Value")


class Positioned(NamedTuple, Generic[Value]):
    """A value and its position in the text."""

    position: int
    value: Value


class CountTokens(NamedTuple):
    """The tokens of a count: one number, or the two numbers of a range."""

    low: Token
    high: Token | None


@v_args(inline=True)
class Builder(Transformer[Token, Request]):
    """One method for each rule of request.lark; raises RuleError with the position."""

    def request(self, *groups: Positioned[ProcessGroup]) -> Request:
        totals = accumulate(group.value.count.high for group in groups)
        beyond = (group for group, total in zip(groups, totals, strict=True) if total > MAX_COUNT)
        with _at_position(next(beyond, groups[0]).position):
            return Request(tuple(group.value for group in groups))

    def process_group(
        self, count: CountTokens | None, process: Positioned[tuple[Need, ...]], placement: Placement | None
    ) -> Positioned[ProcessGroup]:
        position = process.position if count is None else _position(count.low)
        with _at_position(position):
            return Positioned(position, ProcessGroup(_count(count), process.value, placement))

    def process(self, opening: Token, *needs: Positioned[Need]) -> Positioned[tuple[Need, ...]]:
        by_kind: dict[str, Need] = {}
        for position, need in needs:
            with _at_position(position):
                known = by_kind.get(need.kind)
                by_kind[need.kind] = known.plus(need) if known else need
        return Positioned(_position(opening), tuple(by_kind.values()))

    def need(self, count: CountTokens | None, kind: Token) -> Positioned[Need]:
        position = _position(kind if count is None else count.low)
        with _at_position(position):
            return Positioned(position, Need(str(kind), _amount(count, kind)))

    def placement(self, name: Token, value: Token | None) -> Placement:
        return Placement(str(name), None if value is None else str(value))

    def count(self, low: Token, high: Token | None) -> CountTokens:
        return CountTokens(low, high)


def _amount(count: CountTokens | None, kind: Token) -> Count | Decimal:
    if kind.lower() not in UNITS:
        return _count(count)
    if count is None:
        return Decimal(1)
    if count.high is None:
        return Decimal(_digits(count.low))
    written = f"{shorten(count.low)}-{shorten(count.high)}"
    message = f"{kind} cannot be elastic; write one number instead of {written}"
    raise RuleError(message, "one number", f"[4:{kind.lower()}]")


def _count(count: CountTokens | None) -> Count:
    return Count(1, 1) if count is None else Count(_whole(count.low), _whole(count.high or count.low))


def _whole(number: Token) -> int:
    with _at_position(_position(number)):
        if "." in number:
            message = f"{shorten(number)} is not a whole number; only cpu and mem take fractions"
            raise RuleError(message, "a whole number", "2:[a100,0.5:cpu]")
        return int(_digits(number))


def _digits(number: Token) -> str:
    # Before any arithmetic, because `int` raises a ValueError of its own for thousands of digits.
    whole, point, fraction = number.partition(".")
    digits = whole.lstrip("0") or "0"
    if len(digits) > len(str(MAX_COUNT)):
        raise too_large(number)
    return digits + point + fraction


@contextmanager
def _at_position(position: int) -> Iterator[None]:
    """Set the position of a RuleError, unless an inner part has already set it."""
    try:
        yield
    except RuleError as error:
        if error.position is None:
            error.position = position
        raise


def _position(token: Token) -> int:
    return token.start_pos or 0
