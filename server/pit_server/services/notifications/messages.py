"""What notifications say: a subject, a text, and a record for programs."""

from collections.abc import Mapping
from typing import Any

from pit_protocol.durations import render_duration
from pit_protocol.notifications import DONE, FAILED, HELLO, STALLED, STARTED, STOPPED

VERBS = {STARTED: "started", DONE: "succeeded", FAILED: "failed", STOPPED: "was stopped", STALLED: "stalled"}
MAX_TITLE = 200
MAX_REASON = 500


def subject(message: Mapping[str, Any]) -> str:
    """One line, such as `job 190 failed: First light`."""
    if message["event"] == HELLO:
        return f"pit will tell {message['user']} here of jobs"
    return f"job {message['job']} {_verb(message)}: {line(message['title'], MAX_TITLE)}"


def text(message: Mapping[str, Any]) -> str:
    """A few lines for people."""
    if message["event"] == HELLO:
        return f"{subject(message)}.\n`pit set me notify=done,failed` says of which events."
    lines = [subject(message)]
    if message.get("reason"):
        lines.append(line(message["reason"], MAX_REASON))
    lines.append(f"{render_duration(round(message['age_s']))} after its submission by {message['user']}")
    lines.append(f"`pit log {message['job']}` shows its log, `pit show {message['job']}` how it went")
    return "\n".join(lines)


def record(key: str, message: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a webhook; `id` is the same when it is sent again."""
    return {"id": key, **message, "text": subject(message)}


def line(words: str, most: int) -> str:
    """Free text on one line, without control characters, so that it cannot pretend to be another part."""
    clean = "".join(letter if letter.isprintable() else " " for letter in words)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def _verb(message: Mapping[str, Any]) -> str:
    outcome = message.get("outcome")
    if message["event"] == FAILED and outcome and outcome != "failed":
        return f"ended ({outcome})"
    return VERBS[message["event"]]
