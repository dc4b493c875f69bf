"""Names of users, groups, nodes and aliases: what is allowed, and errors about them."""

import re
from collections.abc import Sequence

from pit_protocol.problem import Problem
from pit_server.scheduler import kinds

NAME = re.compile(r"[a-z][a-z0-9_-]{1,31}")
# A kind's name in a request: one word of the request language.
ALIAS = re.compile(r"[a-z][a-z0-9._-]{0,63}")
RESERVED = {"me", "all", "current", "head", "home", "shared", *kinds.RESERVED}


def check_name(kind: str, name: str) -> None:
    """Raise a Problem unless an object of this kind may have this name."""
    if name in RESERVED:
        raise Problem("reserved_name", f"{name} is reserved and cannot be the name of {a(kind)}", status=422)
    if not (ALIAS if kind == "alias" else NAME).fullmatch(name):
        dots = ", dots" if kind == "alias" else ""
        shortest, longest = (1, 64) if kind == "alias" else (2, 32)
        raise Problem(
            "bad_name",
            f"{name[:40]!r} cannot be the name of {a(kind)}",
            f"a letter first, then letters, digits{dots}, - and _, all lower case, {shortest} to {longest}",
            status=422,
        )


def exists(kind: str, name: str) -> Problem:
    return Problem(
        "exists", f"there is {a(kind)} {name} already", f"`pit set {kind}:{name} …` changes it", status=409
    )


def unknown(kind: str, name: str) -> Problem:
    plural = "aliases" if kind == "alias" else f"{kind}s"
    return Problem(
        f"no_such_{kind}", f"there is no {kind} {name[:64]}", f"`pit show {plural}` lists them", status=404
    )


def in_use(thing: str, why: str, way_out: str) -> Problem:
    return Problem("in_use", f"{thing} is in use: {why}", way_out, status=409)


def jobs(numbers: Sequence[int]) -> str:
    """`job 6 has` or `jobs 6, 7 have`, as the beginning of a sentence."""
    if len(numbers) == 1:
        return f"job {numbers[0]} has"
    return f"jobs {some([str(number) for number in numbers])} have"


def a(thing: str) -> str:
    return f"an {thing}" if thing[0] in "aeio" else f"a {thing}"


def some(names: list[str], most: int = 10) -> str:
    """The first few of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
