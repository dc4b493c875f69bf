"""Frozen dataclasses to JSON and back; what comes from a socket is checked, never trusted."""

import types
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pit_protocol.problem import Problem

T = TypeVar("T")
MAX_NUMBER = 2**53  # beyond it, JSON readers differ about what a number is


def to_json(value: Any) -> Any:
    """The plain form of a message; an enum becomes its value, a dataclass a dict."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_json(getattr(value, name)) for name in _hints(type(value))}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, Enum):
        return value.value
    return value


def from_json(kind: type[T], body: Any, where: str = "") -> T:
    """Build a `kind` from plain JSON; a missing, unknown or ill-typed field raises a Problem."""
    if not isinstance(body, dict):
        raise _misfit(where or kind.__name__, "an object", body)
    hints = _hints(kind)  # type: ignore[arg-type]
    unknown = sorted(set(body) - set(hints))
    if unknown:
        raise Problem(
            "unknown_field",
            f"unknown field {unknown[0]!r}",
            f"known are: {', '.join(sorted(hints))}",
            status=422,
        )
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        path = f"{where}.{field.name}" if where else field.name
        if field.name in body:
            try:
                values[field.name] = _convert(hints[field.name], body[field.name], path)
            except Problem:
                if field.repr:
                    raise
                # What is not for logs is not for errors either.
                raise Problem("bad_field", f"field {path!r} is not what it must be", status=422) from None
        elif field.default is MISSING and field.default_factory is MISSING:
            raise Problem("missing_field", f"field {path!r} is missing", status=422)
    return kind(**values)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _convert(hint: Any, value: Any, path: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        hint = next(option for option in get_args(hint) if option is not type(None))
        return _convert(hint, value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise _misfit(path, "a list", value)
        return tuple(_convert(get_args(hint)[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _misfit(path, "an object", value)
        return {key: _convert(get_args(hint)[1], item, f"{path}.{key}") for key, item in value.items()}
    if is_dataclass(hint):
        return from_json(hint, value, path)  # type: ignore[arg-type]
    return _scalar(hint, value, path)


def _scalar(hint: Any, value: Any, path: str) -> Any:
    if issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise _misfit(path, " or ".join(str(member.value) for member in hint), value) from None
    if isinstance(value, int | float) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise _misfit(path, f"within ±2^{MAX_NUMBER.bit_length() - 1}", value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # bool is a subclass of int, and `true` is no number.
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise _misfit(path, hint.__name__, value)
    return value


def _misfit(path: str, wanted: str, value: Any) -> Problem:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return Problem("bad_field", f"field {path!r} must be {wanted}, not {shown}", status=422)
