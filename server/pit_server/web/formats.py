"""Numbers, times and states as people read them; filters of the templates."""

import shlex
import time
from collections.abc import Callable
from datetime import UTC, datetime

from pit_protocol.answers.jobs import JobRecord, JobSummary
from pit_protocol.arrays.numbers import job_name
from pit_protocol.job_options import ASSIGNMENT, OPTIONS
from pit_protocol.states import JobState, NodeState, Outcome

MINUTE, HOUR, DAY = 60, 3600, 86400
TONES: dict[str, str] = {  # the class that colours a state; the word is always there too
    JobState.PREPARING: "wait",
    JobState.WAITING: "wait",
    JobState.STARTING: "run",
    JobState.RUNNING: "run",
    JobState.STOPPING: "off",
    Outcome.SUCCEEDED: "ok",
    Outcome.FAILED: "bad",
    Outcome.TIMED_OUT: "bad",
    Outcome.STOPPED: "off",
    Outcome.LOST: "lost",
    NodeState.ONLINE: "ok",
    NodeState.OFFLINE: "bad",
    NodeState.DRAINING: "wait",
    NodeState.MAINTENANCE: "off",
    NodeState.NEW: "off",
}


def state_word(job: JobSummary) -> str:
    """The state, or how the job ended."""
    return job.outcome or job.state


def tone(word: str) -> str:
    return TONES.get(word, "off")


def span(seconds: float | None) -> str:
    """A length of time: `12 s`, `3 min`, `1 h 12 min`, `4 d 2 h`."""
    if seconds is None:
        return "–"
    left = max(int(seconds), 0)
    if left < MINUTE:
        return f"{left} s"
    if left < HOUR:
        return f"{left // MINUTE} min"
    if left < DAY:
        return f"{left // HOUR} h {left % HOUR // MINUTE} min"
    return f"{left // DAY} d {left % DAY // HOUR} h"


def ago(at: float) -> str:
    """How long ago, or in how long."""
    past = time.time() - at
    return f"{span(past)} ago" if past >= 0 else f"in {span(-past)}"


def since(at: float) -> str:
    return span(time.time() - at)


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def clock(at: float) -> str:
    """The time, with the date if it is not today's; in UTC until the page's script knows better."""
    moment = datetime.fromtimestamp(at, UTC)
    is_today = moment.date() == datetime.now(UTC).date()
    return f"{moment:%H:%M}" if is_today else f"{moment:%Y-%m-%d %H:%M}"


def size(count: float | None) -> str:
    """Bytes as KiB, MiB, GiB."""
    if count is None:
        return "–"
    amount = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} TiB"


def gib(mib: float) -> str:
    return f"{mib / 1024:,.0f}" if mib >= 10 * 1024 else f"{mib / 1024:,.1f}".removesuffix(".0")


def number(value: float) -> str:
    """A number with up to four digits that matter."""
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def command(job: JobRecord) -> str:
    """The `pit run` that would submit the same, from the project's directory."""
    words = ["pit", "run", shlex.quote(job.title), shlex.quote(job.request)]
    for name, option in OPTIONS.items():
        value = getattr(job.options, name)
        if not value:
            continue
        flag = option.flags[0]
        if option.metavar == ASSIGNMENT:
            for key, text in sorted(value.items()):
                words += [flag, shlex.quote(f"{key}={text}")]
        elif isinstance(value, list):
            for text in value:
                words += [flag, shlex.quote(text)]
        elif isinstance(value, bool):
            words.append(flag)
        else:
            words += [flag, shlex.quote(job.options.shown(name))]
    return " ".join([*words, *(f"--secret {name}" for name in job.variables)])


FILTERS: dict[str, Callable[..., str]] = {
    "state_word": state_word,
    "tone": tone,
    "span": span,
    "ago": ago,
    "since": since,
    "iso": iso,
    "clock": clock,
    "size": size,
    "gib": gib,
    "number": number,
    "command": command,
    "job_name": job_name,
}
