"""Maintenance windows: periods in which a node takes no new processes, known before they begin."""

from datetime import UTC, datetime

from pit_protocol.durations import render_duration
from pit_protocol.job_times import Window, parse_window
from pit_protocol.problem import Problem
from pit_server.db.models import Node


def read(name: str, text: str) -> str:
    """The property of a node, such as `2026-12-01T08:00+01:00/4h`; empty: none."""
    text = text.strip()
    try:
        if text:
            parse_window(text)
    except ValueError as error:
        raise Problem(f"bad_{name}", f"{name}: {error}", status=422) from error
    return text


def put(node: Node, text: str, *, now: float) -> None:
    window = parse_window(text) if text else None
    if window and window.end <= now:
        raise Problem(
            "bad_maintenance",
            f"that maintenance of {node.name} would be over: it ended at {_time(window.end)}",
            "write a time in the future, such as 2026-12-01T08:00/4h",
            status=422,
        )
    node.maintenance_start, node.maintenance_end = window or (None, None)


def find(node: Node, now: float) -> Window | None:
    """The window of a node, unless it is over."""
    if node.maintenance_start is None or node.maintenance_end is None or node.maintenance_end <= now:
        return None
    return Window(node.maintenance_start, node.maintenance_end)


def has_begun(node: Node, now: float) -> bool:
    window = find(node, now)
    return window is not None and window.start <= now


def reason_of(node: Node, now: float) -> str:
    """Why the node takes no new processes, in words: its admin's reason, or a window that has begun."""
    if node.service_reason or not has_begun(node, now):
        return node.service_reason
    return f"maintenance until {_time(node.maintenance_end or now)}"


def render(node: Node, now: float) -> str:
    """The property as it is written; empty if there is none."""
    window = find(node, now)
    if window is None:
        return ""
    begin = datetime.fromtimestamp(window.start, UTC).isoformat(timespec="seconds")
    return f"{begin}/{render_duration(window.end - window.start)}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
