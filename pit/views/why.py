"""Why a job is in its state, in sentences."""

import shlex
import textwrap
from collections.abc import Iterator, Sequence

from pit.ui.plural import plural
from pit.ui.sanitize import sanitize, sanitize_log
from pit.ui.times import clock_time, short_age, start_text
from pit.views.arrays import progress_text
from pit_protocol.answers.jobs import ArrayProgress, JobSummary
from pit_protocol.answers.why import (
    ARRIVAL,
    GROUP_USE,
    PRIORITY,
    USER_USE,
    Ahead,
    Holder,
    Missing,
    OtherJob,
    Queued,
    Story,
    Why,
)
from pit_protocol.states import JobState, Outcome

STALE_S = 60.0  # a reason that is older is shown with its age
INDENT = "  "
_AHEAD = {
    PRIORITY: ("{} is ahead by its priority", "{} are ahead by their priority"),
    GROUP_USE: (
        "{} is ahead, because its group has used less",
        "{} are ahead, because their groups have used less",
    ),
    USER_USE: (
        "{} is ahead, because its user has used less",
        "{} are ahead, because their users have used less",
    ),
    ARRIVAL: ("{} arrived earlier", "{} arrived earlier"),
}
_ENDED = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.FAILED: "failed",
    Outcome.STOPPED: "was stopped",
    Outcome.LOST: "was lost",
}


def why_text(why: Why, now: float, width: int | None) -> str:
    """One sentence on each line, wrapped to the width of a terminal."""
    lines = list(_sentences(why, now))
    if width is None:
        return "\n".join(lines)
    wrapped = (
        [line] if line.startswith(INDENT) else textwrap.wrap(line, width, break_on_hyphens=False)
        for line in lines
    )
    return "\n".join(row for rows in wrapped for row in rows)


def _sentences(why: Why, now: float) -> Iterator[str]:
    job = why.job
    name = f'Job {job.name} "{sanitize(job.title)}"' + ("" if why.is_mine else f" of {sanitize(job.user)}")
    if why.story is not None and job.elements is not None and job.state != JobState.PREPARING:
        yield from _of_array(name, why, job.elements, now)
    elif why.queued is not None:
        yield from _of_waiting(name, why, why.queued, now)
    elif why.story is not None and job.state == JobState.ENDED:
        yield from _of_ended(name, why, why.story, now)
    elif why.story is not None:
        yield from _of_live(name, job, why.story, now)


def _of_waiting(name: str, why: Why, queued: Queued, now: float) -> Iterator[str]:
    reason = _clause(sanitize(why.job.reason)) or "the scheduler has not considered it yet"
    yield f"{name} has waited for {short_age(now - why.job.since)}: {reason}."
    yield from _details(why, queued, now)


def _of_array(name: str, why: Why, elements: ArrayProgress, now: float) -> Iterator[str]:
    """An array that has begun: how far it is, what its next element waits for, what failed."""
    job, age = why.job, short_age(now - why.job.since)
    if job.state == JobState.ENDED:
        verb = _ENDED.get(Outcome(job.outcome or Outcome.FAILED), sanitize(job.outcome or "ended"))
        reason = f": {sanitize(job.reason)}" if job.reason else ""
        yield f"{name} {verb} {age} ago{reason}."
    else:
        yield f"{name} has been {sanitize(job.state)} for {age}: {progress_text(elements)}."
    if why.queued is not None:
        yield f"Its next element waits: {_clause(sanitize(why.queued.reason))}."
        yield from _details(why, why.queued, now)
    for element in why.failed:
        yield f"Element {job.number}.{element.index} {sanitize(element.outcome)}: {sanitize(element.reason)}."
    if why.failed:
        yield f"`pit why {job.number}.{why.failed[0].index}` explains one."
    if why.failed and job.state == JobState.ENDED:
        yield f"`pit rerun {job.number} --failed` runs them again."


def _details(why: Why, queued: Queued, now: float) -> Iterator[str]:
    if queued.as_of is not None and now - queued.as_of > STALE_S:
        age = short_age(now - queued.as_of)
        yield f"The scheduler found this {age} ago and has not reached the job since."
    yield from (_missing(each) for each in queued.missing if each.nodes)
    yield from (_holder(each, now) for each in queued.holders)
    if queued.more_holders:
        more = plural(queued.more_holders, "other job")
        yield f"{more} {'holds' if queued.more_holders == 1 else 'hold'} some of it, too."
    if queued.place is not None:
        yield _place(queued)
        yield from map(_ahead, queued.ahead)
        yield _start(why.job, now)
    yield from _smaller(why, queued)


def _clause(reason: str) -> str:
    """The reason as the end of a sentence."""
    return f"it {reason}" if reason.startswith(("waits ", "needs ", "would ")) else reason


def _missing(missing: Missing) -> str:
    where = " and ".join(f"{_number(each.free)} on {sanitize(each.node)}" for each in missing.nodes)
    if missing.free < missing.wanted:
        free = f"{_number(missing.free)} {'is' if missing.free == 1 else 'are'} free"
        is_one = len(missing.nodes) == 1
        place = f" on {sanitize(missing.nodes[0].node)}" if is_one else f": {where}"
        return f"Of the {_amount(missing.wanted, missing.kind)}, {free}{place}."
    return f"Each process needs {_amount(missing.each, missing.kind)} on one node; free are {where}."


def _holder(holder: Holder, now: float) -> str:
    nodes = _listed([sanitize(node) for node in holder.nodes])
    held = f"{_capital(_job(holder.job))} holds {_amount(holder.amount, holder.kind)} on {nodes}"
    if holder.until is None:
        return f"{held} until {'its node answers' if len(holder.nodes) == 1 else 'its nodes answer'} again."
    end = "ends" if holder.has_limit else "is planned to end"
    return f"{held} and {end} by {clock_time(holder.until, now)}."


def _place(queued: Queued) -> str:
    if queued.place == 1:
        return "It is first in the queue."
    return f"It is number {queued.place:,} of {queued.length:,} in the queue."


def _start(job: JobSummary, now: float) -> str:
    if job.starts is None:
        return "Its start is not estimated, because nothing is reserved for it yet."
    return f"It {start_text(job.starts, now)}, by what is known of the jobs before it."


def _ahead(ahead: Ahead) -> str:
    one, many = _AHEAD.get(ahead.factor, ("{} is ahead", "{} are ahead"))
    named = _listed([_job(job) for job in ahead.jobs], ahead.count - len(ahead.jobs))
    return f"{(one if ahead.count == 1 else many).format(_capital(named))}."


def _smaller(why: Why, queued: Queued) -> Iterator[str]:
    number = why.job.name
    requests = [each for each in queued.smaller if not each.time]
    for each in queued.smaller:
        what = (
            f"`pit set job:{number} time={sanitize(each.time)}`"
            if each.time
            else f"'{sanitize(each.request)}'"
        )
        shown = f": {what}" if why.is_mine or not each.time else ""
        yield f"It would start now {sanitize(each.change)}{shown}."
    if requests and why.is_mine:
        request = shlex.quote(sanitize(requests[0].request))
        yield f"`pit stop {number} && pit rerun {number} --request {request}` submits it that way."
    if not queued.all_tried and not queued.smaller:
        yield "There was no time to look for a smaller request that would start now."


def _of_live(name: str, job: JobSummary, story: Story, now: float) -> Iterator[str]:
    age = short_age(now - job.since)
    place = f" on {_listed([sanitize(node) for node in story.nodes])}" if story.nodes else ""
    processes = f", with {story.processes:,} processes" if story.processes > 1 else ""
    text = {
        JobState.PREPARING: f"has been in preparation for {age}: the head builds its directory",
        JobState.STARTING: f"has been starting for {age}{place}",
        JobState.RUNNING: f"has run for {short_age(story.ran_s or 0)}{place}",
        JobState.STOPPING: f"has been stopping for {age}{place}",
    }.get(JobState(job.state), f"is {sanitize(job.state)}")
    yield f"{name} {text}{processes}."
    yield from _waited(story)
    if story.ends_at is not None:
        left = short_age(story.ends_at - now)
        yield f"Its time limit ends it in {left}, at {clock_time(story.ends_at, now)}."
    if job.reason:
        yield f"{_capital(sanitize(job.reason))}."
    if job.state != JobState.PREPARING:
        yield f"`pit log {job.name}` follows its output, `pit stop {job.name}` stops it."


def _of_ended(name: str, why: Why, story: Story, now: float) -> Iterator[str]:
    job = why.job
    verb = _ENDED.get(Outcome(job.outcome or Outcome.FAILED), sanitize(job.outcome or "ended"))
    reason = f": {sanitize(job.reason)}" if job.reason else ""
    yield f"{name} {verb} {short_age(now - job.since)} ago{reason}."
    yield from _waited(story)
    if story.ran_s is not None:
        nodes = _listed([sanitize(node) for node in story.nodes])
        yield f"It ran for {short_age(story.ran_s)} on {nodes}."
    if story.failure is not None:
        failure = story.failure
        where = f"Worker {failure.rank} on {sanitize(failure.node)} failed first"
        yield f"{where}; its output ends with:" if failure.lines else f"{where} and wrote nothing."
        yield from (INDENT + sanitize_log(line, colour=False) for line in failure.lines)
    yield _way_out(job, story)


def _waited(story: Story) -> Iterator[str]:
    if story.waited_s is not None and story.waited_s >= 1:
        end = f"; at the end: {sanitize(story.waited_for)}" if story.waited_for else ""
        yield f"It waited in the queue for {short_age(story.waited_s)}{end}."


def _way_out(job: JobSummary, story: Story) -> str:
    number = job.name
    if story.started_at is None:
        return f"It never ran. `pit rerun {number}` submits it again."
    if job.outcome == Outcome.SUCCEEDED:
        return f"`pit log {number}` prints its output, `pit ls {number}` lists its files."
    again = f"pit rerun {number}" + (" --time 2h" if job.outcome == Outcome.TIMED_OUT else "")
    return f"`pit log {number}` prints all of its output, `{again}` runs it again."


def _job(job: OtherJob) -> str:
    user = sanitize(job.user)
    return f"a job of {user}" if job.number is None else f"job {job.number} ({user})"


def _amount(amount: float, kind: str) -> str:
    """`2 a100`, `1.5 cores`, `16 GiB of memory`, `1 slot`."""
    if kind == "mem":
        return f"{_number(amount)} GiB of memory"
    noun = {"cpu": "core", "slot": "slot"}.get(kind, "")
    plural_noun = noun if amount == 1 or not noun else f"{noun}s"
    return f"{_number(amount)} {plural_noun or sanitize(kind)}"


def _number(amount: float) -> str:
    return f"{round(amount, 1):g}"


def _listed(names: Sequence[str], more: int = 0) -> str:
    """`a`, `a and b`, `a, b and 3 others`."""
    words = [*names, f"{more:,} {'other' if more == 1 else 'others'}"] if more else list(names)
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
