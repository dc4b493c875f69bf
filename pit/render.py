"""What the head answered, in words: pure functions from its JSON to harmless text."""

from collections.abc import Iterable, Mapping
from typing import Any

from pit.safe import safe, safe_log
from pit.tables import Column, Section
from pit.times import local_time, short_age

Json = Mapping[str, Any]

STATE_STYLES = {
    "PRE": "cyan",
    "WAI": "yellow",
    "STA": "cyan",
    "RUN": "green",
    "STG": "magenta",
    "SUC": "green",
    "FAI": "bold red",
    "STP": "magenta",
    "LOS": "red",
    "TIM": "red",
}
JOB_COLUMNS = (
    Column("JOB", right=True),
    Column("S", styles=STATE_STYLES),
    Column("SINCE"),
    Column("UC%", right=True),
    Column("UM%", right=True),
    Column("USER"),
    Column("TITLE", flexible=True),
    Column("RESOURCE", flexible=True),
)


def records(pairs: Iterable[tuple[str, str]]) -> str:
    """`Label:` and value, aligned."""
    labelled = [(f"{label}:", value) for label, value in pairs]
    width = max(len(label) for label, _ in labelled) + 1
    return "\n".join(f"{label:<{width}}{value}".rstrip() for label, value in labelled)


def listing(names: Iterable[str] | None) -> str:
    return safe(", ".join(names or ())) or "-"


def job_row(job: Json, now: float) -> tuple[str, ...]:
    return (
        str(job["number"]),
        safe(job["letters"]),
        short_age(now - job["since"]),
        _percent(job["gpu_percent"]),
        _percent(job["memory_percent"]),
        safe(job["user"]),
        safe(job["title"]),
        safe(job["request"]),
    )


def status_sections(status: Json, now: float) -> list[Section]:
    """Running, waiting and done jobs; a part without jobs is left out."""
    sections = []
    for name in ("running", "waiting", "done"):
        jobs = status[name]
        more = max(0, status["totals"][name] - len(jobs))
        if jobs or more:
            sections.append(Section(name.capitalize(), [job_row(job, now) for job in jobs], more))
    return sections


def accepted_text(record: Json) -> str:
    """What `pit run` says of the job that it made."""
    return records([("Job number", str(record["number"])), *snapshot_pairs(record)])


def snapshot_pairs(record: Json) -> list[tuple[str, str]]:
    snapshot = record["snapshot"]
    remote = f"{safe(snapshot['remote_name'] or '')} <{safe(snapshot['remote'])}>".strip()
    return [
        ("Remote", remote if snapshot["remote"] else "none, the project's objects were sent along"),
        ("Hash", safe(snapshot["commit"] or "none, there is no commit yet")),
        ("Diff LoC", f"{snapshot['diff_lines']:,}"),
        ("Resources", f'"{safe(record["request"])}"'),
    ]


def log_line(line: Json, *, colour: bool) -> str:
    where = f"[{local_time(line['at'])}] [{safe(line['source'])}]"
    text = safe_log(str(line["text"]), colour=colour)
    return f"\x1b[2m{where}\x1b[0m {text}" if colour else f"{where} {text}"


def ending(record: Json) -> str:
    """How a job ended, as a sentence: `job 12 failed: process 0.1 ended with exit code 3`."""
    number, outcome = record["number"], record["outcome"]
    if outcome == "succeeded":
        return f"job {number} succeeded"
    verb = {"stopped": "was stopped", "lost": "was lost"}.get(outcome, safe(outcome))
    why = safe(record["reason"] or "")
    return f"job {number} {verb}: {why}" if why else f"job {number} {verb}"


def process_end(process: Json) -> str:
    if process["signal"]:
        return f"signal {process['signal']}"
    return f"exit code {process['exit_code']}" if process["exit_code"] is not None else "-"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
