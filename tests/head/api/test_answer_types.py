"""Every route declares what it answers, as types of the protocol."""

from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from flask import Flask, Response
from msgspec import Struct


def _kinds(hint: Any) -> list[Any]:
    """The types that a view returns, without the status beside them."""
    if isinstance(hint, UnionType):
        return [kind for option in get_args(hint) for kind in _kinds(option)]
    return _kinds(get_args(hint)[0]) if get_origin(hint) is tuple else [hint]


def test_every_route_returns_a_type_of_the_protocol(app: Flask) -> None:
    for name, view in app.view_functions.items():
        for kind in _kinds(get_type_hints(view)["return"]):
            is_typed = issubclass(kind, Struct) and kind.__module__.startswith("pit_protocol.")
            assert issubclass(kind, Response) or is_typed, f"{name} returns {kind}"
