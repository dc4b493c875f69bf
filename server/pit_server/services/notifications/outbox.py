"""The outbox: messages are stored with the change that they tell of, and sent afterwards.

A message is sent at least once: a head that is killed between sending it and noting that sends it again,
with the same key.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.orm import Session

from pit_protocol.durations import DAY_S, render_duration
from pit_protocol.notifications import CHANNELS, DONE, FAILED, HELLO, PREFIX, STARTED, STOPPED
from pit_protocol.states import JobEvent, JobState, Outcome
from pit_server.db.database import AnyRow, notify_after_commit
from pit_server.db.models import Job, Notification, Secret, User
from pit_server.wakeups import NOTIFIER

MOST_WAITING = 1000  # messages of a user; further events are not told
MOST_ENDED = 100  # that are remembered of a user
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 3600.0  # between two tries
GIVE_UP_S = DAY_S
MAX_ERROR = 200
IS_OPEN = Notification.ended_at.is_(None)


def event_of(event: JobEvent, state: JobState, outcome: Outcome | None) -> str | None:
    """What users call a change of a job; None: they are not told of it."""
    if event is JobEvent.STARTED:
        return STARTED
    if event is JobEvent.STALLED:
        return str(event)
    if state is not JobState.ENDED:
        return None
    return {Outcome.SUCCEEDED: DONE, Outcome.STOPPED: STOPPED}.get(outcome or Outcome.FAILED, FAILED)


def tell_of_job(session: Session, number: int, attempt: int, event: str, *, reason: str, now: float) -> None:
    """Store messages about a job, one for each channel of its user; each event of an attempt once."""
    told = select(Notification.id).where(
        Notification.job_id == number, Notification.event == event, Notification.attempt == attempt
    )
    if session.execute(told.limit(1)).first():
        return
    columns = (Job.user_id, Job.title, Job.outcome, Job.created_at, User.name)
    job = session.execute(select(*columns).join(User).where(Job.id == number)).one()
    message = {
        "event": event,
        "job": number,
        "title": job.title,
        "user": job.name,
        "outcome": job.outcome,
        "reason": reason,
        "at": now,
        "age_s": now - job.created_at,
    }
    _add(session, job.user_id, list_channels(session, job.user_id), message, now=now, attempt=attempt)


def greet(session: Session, user_id: int, channel: str, *, now: float) -> None:
    """Store a message for a channel that was set up, and try at once what waits for it."""
    waiting = (Notification.user_id == user_id) & (Notification.channel == channel) & IS_OPEN
    session.execute(update(Notification).where(waiting).values(next_at=now, tries=0))
    name = session.execute(select(User.name).where(User.id == user_id)).scalar_one()
    _add(session, user_id, [channel], {"event": HELLO, "user": name, "at": now}, now=now)


def forget_channel(session: Session, user_id: int, channel: str) -> None:
    mine = (Notification.user_id == user_id) & (Notification.channel == channel)
    session.execute(delete(Notification).where(mine))


def forget_user(session: Session, user_id: int) -> None:
    session.execute(delete(Notification).where(Notification.user_id == user_id))


def forget_job(session: Session, number: int) -> None:
    session.execute(delete(Notification).where(Notification.job_id == number))


def list_channels(session: Session, user_id: int) -> list[str]:
    """The channels that a user has set up."""
    names = [PREFIX + channel for channel in CHANNELS]
    query = select(Secret.name).where(Secret.user_id == user_id, Secret.name.in_(names))
    found = set(session.execute(query).scalars())
    return [name.removeprefix(PREFIX) for name in names if name in found]


def _add(
    session: Session,
    user_id: int,
    channels: Sequence[str],
    message: dict[str, Any],
    *,
    now: float,
    attempt: int = 0,
) -> None:
    if not channels or _count_waiting(session, user_id) + len(channels) > MOST_WAITING:
        return
    tried = Notification.tries > 0
    failing = select(Notification.channel, func.max(Notification.next_at)).where(
        Notification.user_id == user_id, IS_OPEN, tried
    )
    # Behind a message that failed, so that a dead receiver is not tried more often with each event.
    paused = {row[0]: row[1] for row in session.execute(failing.group_by(Notification.channel))}
    rows = [
        {
            "key": secrets.token_hex(16),
            "user_id": user_id,
            "job_id": message.get("job"),
            "attempt": attempt,
            "event": message["event"],
            "channel": channel,
            "message": message,
            "created_at": now,
            "next_at": max(now, paused.get(channel, now)),
        }
        for channel in channels
    ]
    session.execute(insert(Notification), rows)
    notify_after_commit(session, NOTIFIER)


def _count_waiting(session: Session, user_id: int) -> int:
    query = select(func.count()).select_from(Notification).where(Notification.user_id == user_id, IS_OPEN)
    return session.execute(query).scalar_one()


def list_due(session: Session, *, now: float, busy: Iterable[tuple[int, str]], most: int) -> list[AnyRow]:
    """Messages to try now: the oldest of each channel of each user that is not busy."""
    first = (
        select(func.min(Notification.id))
        .where(IS_OPEN, Notification.next_at <= now)
        .group_by(Notification.user_id, Notification.channel)
    )
    rows = session.execute(
        select(Notification.__table__).where(Notification.id.in_(first)).order_by(Notification.next_at)
    ).all()
    taken = set(busy)
    per_user = Counter(user_id for user_id, _ in taken)
    found: list[AnyRow] = []
    for row in rows:
        # Half of the threads at most, so that slow receivers of one user do not delay the others.
        if (row.user_id, row.channel) in taken or per_user[row.user_id] >= most // 2:
            continue
        if len(taken) + len(found) >= most:
            break
        found.append(row)
        per_user[row.user_id] += 1
    return found


def find_next(session: Session) -> float | None:
    """When the next message is to be tried."""
    return session.execute(select(func.min(Notification.next_at)).where(IS_OPEN)).scalar()


def note_sent(session: Session, row: AnyRow, *, now: float) -> None:
    ended = {"ended_at": now, "is_sent": True, "tries": row.tries + 1, "error": ""}
    session.execute(update(Notification).where(Notification.id == row.id).values(ended))
    _trim(session, row.user_id)


def note_failed(session: Session, row: AnyRow, error: str, *, now: float) -> bool:
    """Plan the next try, also of what waits behind it; after a day, give it up and return True."""
    failed = {"tries": row.tries + 1, "error": error[:MAX_ERROR]}
    gives_up = bool(now - row.created_at >= GIVE_UP_S)
    if gives_up:
        failed["ended_at"] = now
    session.execute(update(Notification).where(Notification.id == row.id).values(failed))
    pause_s = min(FIRST_PAUSE_S * 2**row.tries, LONGEST_PAUSE_S)
    behind = (Notification.user_id == row.user_id) & (Notification.channel == row.channel) & IS_OPEN
    session.execute(update(Notification).where(behind).values(next_at=now + pause_s))
    if gives_up:
        _trim(session, row.user_id)
    return gives_up


def _trim(session: Session, user_id: int) -> None:
    """Forget old messages of a user that were sent or given up."""
    mine = (Notification.user_id == user_id) & Notification.ended_at.is_not(None)
    newest = select(Notification.id).where(mine).order_by(Notification.id.desc()).limit(MOST_ENDED)
    oldest_kept = session.execute(newest.offset(MOST_ENDED - 1).limit(1)).scalar()
    if oldest_kept is not None:
        session.execute(delete(Notification).where(mine, Notification.id < oldest_kept))


def describe(session: Session, user_id: int, *, now: float) -> list[str]:
    """What waits or has failed, a line for each channel of the user; nothing if all is well."""
    lines = []
    is_bad = or_(IS_OPEN, Notification.is_sent.is_(False))
    query = select(Notification).where(Notification.user_id == user_id, is_bad).order_by(Notification.id)
    rows = session.execute(query).scalars().all()
    for channel in CHANNELS:
        mine = [row for row in rows if row.channel == channel]
        waiting = [row for row in mine if row.ended_at is None]
        if waiting:
            error = next((row.error for row in waiting if row.error), "")
            next_s = max(0.0, min(row.next_at for row in waiting) - now)
            again = f"; {error}; next try in {render_duration(round(next_s))}" if error else ""
            lines.append(f"{channel}: {len(waiting)} to send{again}")
        elif mine:
            lines.append(f"{channel}: {len(mine)} given up; the last: {mine[-1].error}")
    return lines
