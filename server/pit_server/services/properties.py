"""Properties of users, groups, nodes, jobs and aliases: who may set them and how they are parsed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pit_protocol.problem import Problem
from pit_server.services import names as names_of
from pit_server.services.users.permissions import Action
from pit_server.services.validation import check_text

MAX_TEXT = 200
MAX_EMAIL = 254
UNITS_MIB = {"M": 1, "G": 1024, "T": 1024 * 1024}
MOST_DIGITS = 10  # directory services use large uids


@dataclass(frozen=True)
class Property:
    name: str  # ending in a dot: any name may follow
    read: Callable[[str, str], Any]  # the property's full name and the text -> the value
    action: Action | None = None  # the permission to set it; None: all who may call the route
    is_mandatory: bool = False

    def matches(self, name: str) -> bool:
        return name == self.name or (
            self.name.endswith(".") and name.startswith(self.name) and name != self.name
        )


def read_all(
    kind: str, known: Sequence[Property], given: Mapping[str, str], *, is_new: bool = False
) -> list[tuple[Property, str, Any]]:
    """Parse `{property: text}`; unknown, missing and invalid ones raise a Problem that says what is valid."""
    found = []
    for name, text in given.items():
        match = next((prop for prop in known if prop.matches(name)), None)
        if match is None:
            names = ", ".join(f"{prop.name}NAME" if prop.name.endswith(".") else prop.name for prop in known)
            raise Problem(
                "unknown_property",
                f"{names_of.a(kind)} has no property {name[:40]!r}",
                f"its properties are {names}",
                status=422,
            )
        found.append((match, name, match.read(name, text)))
    missing = [prop.name for prop in known if prop.is_mandatory and prop.name not in given] if is_new else []
    if missing:
        raise Problem(
            "missing_property", f"{names_of.a(kind)} needs {missing[0]}", f"write {missing[0]}=…", status=422
        )
    if not found and not is_new:
        raise Problem("nothing_to_set", "no property is given", "write property=value", status=422)
    return found


def read_text(name: str, text: str) -> str:
    check_text(name, text.strip(), MAX_TEXT)
    if not text.isprintable():
        raise Problem(f"bad_{name}", f"{name} must be a line of text", status=422)
    return text.strip()


def read_some_text(name: str, text: str) -> str:
    if not text.strip():
        raise Problem(f"bad_{name}", f"{name} must not be empty", status=422)
    return read_text(name, text)


def read_email(name: str, text: str) -> str:
    text = text.strip()
    local, at, domain = text.rpartition("@")
    if text and (
        not at or not local or not domain or len(text) > MAX_EMAIL or not text.isprintable() or " " in text
    ):
        raise Problem("bad_email", f"{name}: {text[:40]!r} is not an e-mail address", status=422)
    return text


def read_yes_no(name: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise Problem(f"bad_{name}", f"{name} must be yes or no, not {text[:40]!r}", status=422)
    return text == "yes"


def read_raw(_name: str, text: str) -> str:
    """Return the text unchanged: a password is checked where it is hashed."""
    return text


def read_count(name: str, text: str) -> int | None:
    """A whole number from 1 on; empty for the default."""
    if not text.strip():
        return None
    if not text.isascii() or not text.isdecimal() or not 0 < len(text) <= MOST_DIGITS or int(text) < 1:
        raise Problem(
            f"bad_{name}", f"{name} must be a whole number of at least 1, not {text[:40]!r}", status=422
        )
    return int(text)


def read_size_mib(name: str, text: str) -> int | None:
    """A size such as `500M`, `100G` or `1.5T` in MiB; empty for no limit."""
    text = text.strip()
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([MGT])i?B?", text)
    size = int(float(match[1]) * UNITS_MIB[match[2]]) if match else 0
    if not 0 < size < 1 << 40:
        raise Problem(
            f"bad_{name}", f"{name} must be a size such as 500M, 100G or 1.5T, not {text[:40]!r}", status=422
        )
    return size


def size_text(mib: int | None) -> str:
    """The inverse of `read_size_mib`."""
    if mib is None:
        return ""
    unit = next(unit for unit in ("T", "G", "M") if mib % UNITS_MIB[unit] == 0)
    return f"{mib // UNITS_MIB[unit]}{unit}"


def read_names(name: str, text: str) -> tuple[str, ...]:
    """A list such as `students,ml`; may be empty."""
    check_text(name, text, 10_000)
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
