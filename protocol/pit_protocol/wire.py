"""Messages as JSON: msgspec encodes and validates them, and its errors become Problems.

A `Message` is what a program receives from elsewhere: unknown fields are refused. An `Answer` is
what the head says to a client, which may be older: unknown fields are ignored.
"""

import json
import re
import threading
import types
from enum import Enum
from functools import cache
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from pit_protocol.problem import Problem

T = TypeVar("T")
MAX_NUMBER = 2**53  # beyond it, JSON readers disagree about what a number is
SECRET = Meta(extra={"secret": True})  # a field that must not reach a log

_known: set[Any] = set()  # types that msgspec has analysed
_analysing = threading.Lock()

Int = Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Float = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]


class _Shown(Struct, frozen=True):
    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What is shown of it: every field but the secret ones."""
        hidden = _secrets(type(self))
        return [(name, getattr(self, name)) for name in self.__struct_fields__ if name not in hidden]

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"


class Message(_Shown, frozen=True, forbid_unknown_fields=True):
    """Something that a client, a worker or the head receives and checks."""


class Answer(_Shown, frozen=True):
    """Something that the head tells a client."""


def to_json(value: Any) -> Any:
    """The plain form of a message: dicts, lists and scalars."""
    return _with_lists(msgspec.to_builtins(value))


def _with_lists(value: Any) -> Any:
    """JSON has no tuples."""
    if isinstance(value, dict):
        return {name: _with_lists(item) for name, item in value.items()}
    return [_with_lists(item) for item in value] if isinstance(value, list | tuple) else value


def from_json(kind: type[T], body: Any) -> T:
    """Build a `kind` from plain JSON; raise a Problem that names the field which does not fit."""
    _analyse(kind)
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise _problem(kind, str(error)) from None


def encode(value: Any) -> bytes:
    """A message as JSON text; what is not valid Unicode becomes `?`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        # A reason may quote a file name with any bytes, and must not keep a report from the head.
        return json.dumps(to_json(value), ensure_ascii=False).encode(errors="replace")


def decode(kind: type[T], body: bytes) -> T:
    """Build a `kind` from JSON text; raise a Problem that names the field which does not fit."""
    _analyse(kind)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _problem(kind, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Problem("bad_json", "the body is not JSON", status=422) from None


def _analyse(kind: Any) -> None:
    """Let msgspec analyse a type before its first use: if two threads did so at once, it would crash."""
    if kind not in _known:
        with _analysing:
            msgspec.json.Decoder(kind)
            _known.add(kind)


@cache
def _secrets(kind: type[Struct]) -> frozenset[str]:
    hints = get_type_hints(kind, include_extras=True)
    return frozenset(name for name, hint in hints.items() if SECRET in getattr(hint, "__metadata__", ()))


def _problem(kind: Any, text: str) -> Problem:
    """msgspec's error as one sentence for a person; values are not shown, because one may be a secret."""
    what, _, where = text.partition(" - at `")
    path = where.removeprefix("key in ").rstrip("`").removeprefix("$").removeprefix(".")
    if found := re.match(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        known = ", ".join(sorted(getattr(_type_at(kind, path), "__struct_fields__", ())))
        return Problem("unknown_field", f"unknown field {found[1]!r}", f"known are: {known}", status=422)
    if found := re.match(r"Object missing required field `(.*)`", what):
        name = f"{path}.{found[1]}" if path else found[1]
        return Problem("missing_field", f"field {name!r} is missing", status=422)
    name = path or getattr(kind, "__name__", "the body")
    return Problem("bad_field", f"field {name!r} must be {_wanted(kind, path, what)}", status=422)


def _wanted(kind: Any, path: str, what: str) -> str:
    if what.startswith("Invalid enum value") or (what.startswith("Expected `str`") and _is_enum(kind, path)):
        return " or ".join(str(member.value) for member in _type_at(kind, path))
    if re.match(r"Expected `(int|float)( \| null)?` [<>]", what) or "out of range" in what:
        return f"within ±2^{MAX_NUMBER.bit_length() - 1}"
    words = {"object": "an object", "array": "a list", "bool": "bool", "null": "null"}
    found = re.match(r"Expected `([^`]*)`(?:, got `([^`]*)`)?", what)
    if not found:
        return f"something else: {what}"
    wanted = " or ".join(words.get(each, each) for each in found[1].split(" | "))
    return f"{wanted}, not {words.get(found[2], found[2])}" if found[2] else wanted


def _is_enum(kind: Any, path: str) -> bool:
    found = _type_at(kind, path)
    return isinstance(found, type) and issubclass(found, Enum)


def _type_at(kind: Any, path: str) -> Any:
    """The type of a field inside a message, such as that of `orders[0].action`."""
    for name, item in re.findall(r"(\w+)|(\[[^\]]*\])", path):
        kind = _bare(kind)
        kind = get_args(kind)[-1 if get_origin(kind) is dict else 0] if item else get_type_hints(kind)[name]
    return _bare(kind)


def _bare(hint: Any) -> Any:
    """Without `| None` and annotations."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        return _bare(next(option for option in get_args(hint) if option is not type(None)))
    return hint
