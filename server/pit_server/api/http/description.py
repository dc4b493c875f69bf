"""What a route takes and sends, for the OpenAPI document: beside the view, so that both stay true.

The summary of a route is its docstring, its JSON answers are its return type.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

View = TypeVar("View", bound=Callable[..., Any])


@dataclass(frozen=True)
class Param:
    """A parameter of the query string."""

    name: str
    meaning: str
    kind: Literal["string", "number", "integer"] = "string"
    values: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class Description:
    query: tuple[Param, ...] = ()
    body: Any = None  # the type of a JSON body
    takes: str = ""  # the media type of a body that is not JSON
    sends: tuple[str, ...] = ()  # media types of answers that are not JSON
    status: tuple[int, ...] = (200,)


def describe(
    *query: Param,
    body: Any = None,
    takes: str = "",
    sends: tuple[str, ...] = (),
    status: tuple[int, ...] = (200,),
) -> Callable[[View], View]:
    """Declare what a view takes and sends beside the values in its path."""

    def mark(view: View) -> View:
        view.description = Description(query, body, takes, sends, status)  # type: ignore[attr-defined]
        return view

    return mark


def flag(name: str, meaning: str) -> Param:
    """A parameter that is `yes` or left out."""
    return Param(name, meaning, values=("yes",))


WAIT = Param(
    "wait_s", "hold the answer for so many seconds, at most 10, while there is nothing new", "number"
)
LIMIT = Param("limit", "how many at most", "integer")
OFFSET = Param("offset", "how many bytes to skip", "integer")
EPOCH = Param("epoch", "the epoch of the worker's session", "integer")
