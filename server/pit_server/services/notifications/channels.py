"""The channels by which a user is told of events: properties that are stored like other secrets."""

import re
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.notifications import (
    CHANNELS,
    KEY,
    MAIL,
    NONE,
    PREFIX,
    SLACK,
    TELEGRAM,
    WEBHOOK,
    parse_events,
)
from pit_protocol.problem import Problem
from pit_server.db.models import Secret, User
from pit_server.services.notifications import outbox
from pit_server.services.users import secrets
from pit_server.services.users.tokens import Caller
from pit_server.store.remotes import http

MAX_URL = 2000
SHORTEST_KEY, LONGEST_KEY = 16, 200
BOT = re.compile(r"([0-9]{1,20}:[A-Za-z0-9_-]{20,100})/(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})")
YES = "yes"


def read_events(name: str, text: str) -> str:
    """Parse the property `notify`: the events of all new jobs of a user."""
    try:
        return ",".join(parse_events(text))
    except ValueError as error:
        raise Problem(f"bad_{name}", f"{name}: {error}", status=422) from None


def read(name: str, text: str) -> str:
    """Parse the property of a channel; empty removes it."""
    kind, text = name.removeprefix(PREFIX), text.strip()
    if kind not in (*CHANNELS, KEY):
        known = ", ".join(PREFIX + known for known in (*CHANNELS, KEY))
        raise Problem(
            "unknown_property", f"there is no channel {kind[:40]!r}", f"there are: {known}", status=422
        )
    if not text:
        return ""
    if kind == MAIL and text not in (YES, "no"):
        raise Problem("bad_channel", f"{name} must be yes or no, not {text[:40]!r}", status=422)
    if kind == KEY and (not SHORTEST_KEY <= len(text) <= LONGEST_KEY or not text.isprintable()):
        raise Problem(
            "bad_channel", f"{name} must have {SHORTEST_KEY} to {LONGEST_KEY} characters", status=422
        )
    if kind in (WEBHOOK, SLACK):
        _check_url(name, text)
    if kind == TELEGRAM and not BOT.fullmatch(text):
        hint = "write TOKEN/CHAT, with the bot's token and the chat's number or @name"
        raise Problem("bad_channel", f"{name} does not name a bot and a chat", hint, status=422)
    return "" if text == "no" else text


def _check_url(name: str, text: str) -> None:
    try:
        http.origin(text)
    except Problem:
        hint = "write a URL such as https://hooks.example.org/pit, without a user name"
        raise Problem("bad_channel", f"{name} is not a URL of http or https", hint, status=422) from None
    if len(text) > MAX_URL or not text.isascii():
        raise Problem("bad_channel", f"{name} must be a URL of at most {MAX_URL} characters", status=422)


def put(session: Session, home: Path, user: User, name: str, text: str, *, now: float) -> None:
    """Set up or remove a channel; it gets a first message, so that a mistake shows at once."""
    kind = name.removeprefix(PREFIX)
    if kind == MAIL and text and not user.email:
        raise Problem(
            "no_address", f"user {user.name} has no e-mail address", "`pit set me email=…` first", status=422
        )
    secrets.put(session, home, user.id, name, text)
    if kind == KEY:
        return
    if text:
        outbox.greet(session, user.id, kind, now=now)
    else:
        outbox.forget_channel(session, user.id, kind)


def check_signed(session: Session, user_id: int) -> None:
    """Refuse a webhook without a key: its receiver could not tell who called it."""
    names = (PREFIX + WEBHOOK, PREFIX + KEY)
    query = select(Secret.name).where(Secret.user_id == user_id, Secret.name.in_(names))
    if list(session.execute(query).scalars()) == [PREFIX + WEBHOOK]:
        raise Problem(
            "no_key",
            f"{PREFIX}{WEBHOOK} needs {PREFIX}{KEY}, with which its messages are signed",
            f"`pit set me {PREFIX}{KEY}` asks for one",
            status=422,
        )


def list_all(session: Session) -> dict[int, list[str]]:
    """The channels of each user."""
    names = [PREFIX + channel for channel in CHANNELS]
    query = select(Secret.user_id, Secret.name).where(Secret.name.in_(names)).order_by(Secret.name)
    found: dict[int, list[str]] = {}
    for user_id, name in session.execute(query):
        found.setdefault(user_id, []).append(name.removeprefix(PREFIX))
    return found


def get(session: Session, home: Path, user_id: int, kind: str) -> str | None:
    """The value of a channel, or of the key."""
    query = select(Secret.sealed).where(Secret.user_id == user_id, Secret.name == PREFIX + kind)
    sealed = session.execute(query).scalar_one_or_none()
    return None if sealed is None else secrets.unseal(home, user_id, PREFIX + kind, sealed)


def resolve(session: Session, caller: Caller, wanted: str | None) -> str:
    """The events of a new job; those of its user, unless it names its own."""
    assert caller.user_id is not None  # noqa: S101 - jobs are submitted by users
    if wanted is None:
        return session.execute(select(User.notify).where(User.id == caller.user_id)).scalar_one()
    events = ",".join(parse_events(wanted))
    if events and not outbox.list_channels(session, caller.user_id):
        raise Problem(
            "no_channel",
            f"--notify {wanted} needs a way to reach you, and you have set up none",
            f"`pit set me notify.mail=yes`, for example; or leave it out, or --notify {NONE}",
            status=422,
        )
    return events
