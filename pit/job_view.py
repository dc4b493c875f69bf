"""One job with all that is known of it, as `pit show job:N` prints it."""

from collections.abc import Mapping
from typing import Any

from pit.counts import counted
from pit.render import process_end, records, snapshot_pairs
from pit.safe import safe, safe_lines
from pit.tables import Column, Section
from pit.times import local_time, short_age

Json = Mapping[str, Any]

PROCESS_COLUMNS = (
    Column("PROCESS"),
    Column("NODE"),
    Column("STATE"),
    Column("END"),
    Column("STARTED"),
    Column("RAN"),
    Column("RESOURCES", flexible=True),
    Column("REASON", flexible=True),
)
EVENT_COLUMNS = (
    Column("TIME"),
    Column("EVENT"),
    Column("PROCESS"),
    Column("NOW"),
    Column("BY"),
    Column("REASON", flexible=True),
)


def job_text(job: Json, now: float) -> str:
    """The record part; processes and events follow as tables."""
    state = safe(job["state"]) + (f", {safe(job['outcome'])}" if job["outcome"] else "")
    pairs = [
        ("Job number", str(job["number"])),
        ("Title", safe(job["title"])),
        ("User", safe(job["user"])),
        ("State", state),
        ("Reason", safe(job["reason"] or "")),
        ("Since", f"{local_time(job['since'])} ({short_age(now - job['since'])} ago)"),
        ("Created", local_time(job["created_at"])),
        *snapshot_pairs(job),
        ("Branch", safe(job["snapshot"]["branch"] or "")),
        ("Tree", safe(job["snapshot"]["tree"])),
        ("Changes", _changes(job["snapshot"])),
        ("Reruns", str(job.get("reruns") or "")),
        ("Image", _image(job)),
        ("Command", safe(job["command"] or ".compute")),
        ("Variables", safe(", ".join(job["variables"]))),
        ("Continues", str(job["continues"] or "")),
        ("Private", "yes" if job["private"] else ""),
        ("Groups", safe(", ".join(job["groups"]))),
        ("GPU use", _use(job)),
        ("Keep", "yes" if job.get("keep") else ""),
        ("Attempt", str(job["attempt"])),
        ("Result", safe_lines(job["result"] or "").replace("\n", "\n" + " " * 12)),
    ]
    return records([(label, value) for label, value in pairs if value])


def _changes(snapshot: Json) -> str:
    """What was not committed."""
    if snapshot.get("dirty") is None:
        return ""
    if not snapshot["dirty"]:
        return "none, all of it was committed"
    count = snapshot["diff_files"]
    if count is None:
        return "some were not committed"
    added, removed = snapshot["diff_added"], snapshot["diff_removed"]
    return f"{counted(count, 'file')} not as committed, {added:,} lines added, {removed:,} removed"


def _image(job: Json) -> str:
    """What was asked for, and what it was in the end."""
    ran = dict.fromkeys(process["image"] for process in job["processes"] if process["image"])
    return ", ".join(safe(name) for name in (job["image"], *ran) if name)


def _use(job: Json) -> str:
    if job["gpu_percent"] is None:
        return ""
    return (
        f"{job['gpu_percent']:.0f} % of time, {job['memory_percent']:.0f} % of memory, on the mean of the run"
    )


def process_section(job: Json, now: float) -> Section:
    return Section("", [_process_row(process, now) for process in job["processes"]])


def event_section(job: Json) -> Section:
    return Section("", [_event_row(event) for event in job["events"]])


def _process_row(process: Json, now: float) -> tuple[str, ...]:
    started, ended = process["started_at"], process["ended_at"]
    return (
        f"{process['group']}.{process['index']}",
        safe(process["node"] or "-"),
        safe(process["state"]),
        process_end(process),
        local_time(started) if started else "-",
        short_age((ended or now) - started) if started else "-",
        ", ".join(safe(resource) for resource in process["resources"]) or "-",
        safe(process["reason"] or "-"),
    )


def _event_row(event: Json) -> tuple[str, ...]:
    return (
        local_time(event["at"]),
        safe(event["event"]),
        safe(event["process"] or "-"),
        safe(event["to"] or "-"),
        safe(event["actor"] or "-"),
        safe(event["reason"] or "-"),
    )
