"""The properties of a site that an admin can set, and how their texts are read."""

import re
from dataclasses import dataclass
from typing import Any

from pit_protocol.durations import parse_duration, render_duration
from pit_protocol.messages.site import SiteKind
from pit_protocol.problem import Problem
from pit_server.db.models import Site
from pit_server.services.properties import Property, read_count, read_names, read_yes_no

HOUR_S = 3600.0
ONLINE, PAUSED = "online", "paused"
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._,:@+-]{0,99}")
MOST_ALLOCATIONS = 100


def _read_kind(name: str, text: str) -> str:
    if text not in tuple(SiteKind):
        kinds = ", ".join(SiteKind)
        raise Problem("bad_kind", f"{name} must be one of {kinds}, not {text[:40]!r}", status=422)
    return text


def _read_word(name: str, text: str) -> str:
    """A word that becomes an argument of the site's own commands; empty: none."""
    if text and not WORD.fullmatch(text):
        raise Problem(f"bad_{name}", f"{name}: {text[:40]!r} is not the name of a {name}", status=422)
    return text


def _read_duration(name: str, text: str) -> float | None:
    try:
        return parse_duration(text) if text.strip() else None
    except ValueError as error:
        raise Problem(f"bad_{name}", f"{name}: {error}", status=422) from error


def _read_state(name: str, text: str) -> str:
    if text not in (ONLINE, PAUSED):
        raise Problem("bad_state", f"{name} must be {ONLINE} or {PAUSED}, not {text[:40]!r}", status=422)
    return text


PROPERTIES = (
    Property("kind", _read_kind, is_mandatory=True),
    Property("partition", _read_word),
    Property("account", _read_word),
    Property("qos", _read_word),
    Property("time", _read_duration),
    Property("overflow", _read_duration),
    Property("keep", _read_duration),
    Property("per_node", read_count),
    Property("allocations", read_count),
    Property("groups", read_names),
    Property("shared_account", read_yes_no),
    Property("state", _read_state),
)
OPTIONS = ("partition", "account", "qos")  # that go to the site as they are


@dataclass(frozen=True)
class SiteSettings:
    """The properties of a site as values."""

    options: dict[str, str]
    time_s: float  # of an allocation for a job without a time limit
    overflow_s: float | None  # jobs that have waited for longer may go there; None: only those that name it
    keep_s: float  # how long an allocation waits for another job of its user
    per_node: int  # processes of a job on one node
    most: int  # allocations at a time
    groups: tuple[str, ...]  # that may use it; none: everybody
    shared_account: bool  # several users may share the account of its agent


def settings_of(site: Site) -> SiteSettings:
    given = site.settings
    return SiteSettings(
        options={name: given[name] for name in OPTIONS if given.get(name)},
        time_s=given.get("time") or HOUR_S,
        overflow_s=given.get("overflow"),
        keep_s=given.get("keep") or 0.0,
        per_node=given.get("per_node") or 1,
        most=given.get("allocations") or MOST_ALLOCATIONS,
        groups=tuple(given.get("groups") or ()),
        shared_account=bool(given.get("shared_account")),
    )


def texts_of(site: Site) -> dict[str, str]:
    """The properties that are set, as an admin would write them."""
    return {name: _text(name, value) for name, value in site.settings.items() if value not in (None, "", [])}


def _text(name: str, value: Any) -> str:
    if name in ("time", "overflow", "keep"):
        return render_duration(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, list) else str(value)
