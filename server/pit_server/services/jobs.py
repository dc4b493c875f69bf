"""Jobs: accepting, finding and stopping them."""

import hashlib
import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

from sqlalchemy import insert, literal, select
from sqlalchemy.orm import Session

from pit_grammar import Request, RequestError, parse
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState, KilledBy, Outcome
from pit_protocol.submission import MAX_COMMAND, MAX_TITLE, Submission
from pit_protocol.variables import check_variables
from pit_protocol.wire import MAX_NUMBER, to_json
from pit_server.bells import PREPARER, STATUS, job_bell
from pit_server.db.database import note_event, ring_after_commit
from pit_server.db.models import Job, JobGroup, Membership
from pit_server.scheduler.lack import refuse_reason
from pit_server.services import access, groups, images, lifecycle, node_views, remotes, rights, variables
from pit_server.services.aliases import Names
from pit_server.services.inputs import check_text
from pit_server.services.origins import Origin
from pit_server.services.properties import Property, read_some_text, read_yes_no
from pit_server.services.rights import Act
from pit_server.services.tokens import Caller
from pit_server.settings import Settings
from pit_server.store.paths import DataRoot
from pit_server.store.uploads import check_name

MAX_KEY = 64
MAX_NAME = 200
PROPERTIES = (Property("title", read_some_text), Property("keep", read_yes_no))
COLUMNS = {"title": "title", "keep": "is_kept"}


def check(submission: Submission, settings: Settings) -> Request:
    """Judge all of a submission that needs no database; returns its request."""
    check_text("key", submission.key, MAX_KEY, shortest=1)
    check_text("title", submission.title.strip(), MAX_TITLE, shortest=1)
    if submission.command is not None:
        check_text("command", submission.command, MAX_COMMAND, shortest=1)
    if submission.image is not None:
        images.check(submission.image, settings)
    check_variables(submission.variables)
    _check_snapshot(submission)
    try:
        return parse(submission.request)
    except RequestError as error:
        raise Problem("bad_request", str(error), status=422) from error


def accept(
    session: Session,
    caller: Caller,
    submission: Submission,
    request: Request,
    origin: Origin,
    *,
    home: Path,
    now: float,
) -> tuple[int, bool]:
    """Take a job in; its number, and whether it is new: the same submission sent twice is one job."""
    assert caller.user_id is not None  # noqa: S101 - the route admits users only
    body = _body_hash(home, submission)
    known = session.execute(
        select(Job.id, Job.body_sha256).where(
            Job.user_id == caller.user_id, Job.submission_key == submission.key
        )
    ).one_or_none()
    if known is not None:
        if known.body_sha256 != body:
            raise Problem(
                "key_reused", f"this key was used for job {known.id}, which is another one", status=422
            )
        return known.id, False
    _check_possible(session, caller.user_id, request, submission.image)
    origin.check()
    if submission.continues is not None:
        _check_continued(session, caller, submission.continues)
    inherited = None if submission.inherits is None else find(session, caller, submission.inherits)
    job = _row(caller.user_id, submission, origin, str(request), body, now)
    job.variables = variables.gather(home, caller.user_id, submission, inherited)
    session.add(job)
    session.flush()
    if not submission.private:
        _autoshare(session, job)
    note_event(
        session,
        job_id=job.id,
        attempt=job.attempt,
        event=JobEvent.ACCEPTED,
        from_state=None,
        to_state=job.state,
        actor=caller.name,
        at=now,
    )
    ring_after_commit(session, PREPARER, STATUS)
    return job.id, True


def find(session: Session, caller: Caller, number: int) -> Job:
    """The job, if the caller may see it; to others it does not exist."""
    query = select(Job).where(Job.id == number, access.visible(caller))
    job = session.execute(query).scalar_one_or_none() if number <= MAX_NUMBER else None
    if job is None:
        raise Problem("no_such_job", f"there is no job {number}", "`pit status` lists jobs", status=404)
    return job


def find_to_change(session: Session, caller: Caller, number: int, act: Act = Act.CHANGE_JOB) -> Job:
    """The job, if the caller may change it; 404 or 403, by whether he may see it."""
    job = find(session, caller, number)
    rights.demand(act, access.ties_to_job(session, caller, job), f"job {number}")
    return job


def remove(session: Session, caller: Caller, number: int, *, now: float) -> None:
    """Remove an ended job: from here on there is no such job."""
    job = find_to_change(session, caller, number)
    if lifecycle.lock(session, number).state is not JobState.ENDED:
        raise Problem(
            "not_ended", f"job {number} is still {job.state}", f"`pit stop {number}` first", status=409
        )
    job.removed_at = now
    job.variables = {}  # nobody can run it again
    session.flush()
    ring_after_commit(session, STATUS, job_bell(number))


def share(session: Session, caller: Caller, number: int, group_name: str) -> bool:
    """Share a job with a group of the caller's own; False if it is."""
    job = find_to_change(session, caller, number, Act.SHARE_JOB)
    group = groups.find(session, group_name)
    if (
        not caller.is_admin
        and group_name not in groups.names_by_user(session, caller.user_id)[caller.user_id or 0]
    ):
        raise Problem(
            "not_allowed", f"you are no member of {group_name}", "`pit show me` lists your groups", status=403
        )
    if session.get(JobGroup, {"job_id": job.id, "group_id": group.id}):
        return False
    session.execute(insert(JobGroup).values(job_id=job.id, group_id=group.id))
    ring_after_commit(session, STATUS)
    return True


def unshare(session: Session, caller: Caller, number: int, group_name: str) -> None:
    job = find_to_change(session, caller, number, Act.SHARE_JOB)
    group = groups.find(session, group_name)
    row = session.get(JobGroup, {"job_id": job.id, "group_id": group.id})
    if row is None:
        raise Problem(
            "not_shared", f"job {number} is not shared with {group_name}", f"`pit show {number}`", status=404
        )
    session.delete(row)
    session.flush()
    ring_after_commit(session, STATUS, job_bell(number))


def stop(session: Session, caller: Caller, number: int, *, now: float) -> None:
    """Stop a job on a user's behalf; asking twice is fine, an ended job is a Problem."""
    find_to_change(session, caller, number)
    job = lifecycle.lock(session, number)
    if job.state is JobState.STOPPING:
        return
    try:
        lifecycle.stop(
            session,
            job,
            by=KilledBy.USER,
            outcome=Outcome.STOPPED,
            reason=f"by {caller.name}",
            now=now,
            actor=caller.name,
        )
    except lifecycle.IllegalMove as error:
        raise Problem(
            "already_ended", f"job {number} has ended already", f"`pit show {number}` says how", status=409
        ) from error


def result_text(data: DataRoot, job: Job, limit: int = 4096) -> str | None:
    """What a process left in `$RESULT_FILE`; never through a link that the job made."""
    path = data.attempt(job.id, job.attempt) / "result"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, limit).decode(errors="replace").strip() or None
    finally:
        os.close(descriptor)


def _check_possible(session: Session, user_id: int, request: Request, image: str | None) -> None:
    """Refuse what the user could not get of the whole cluster if it were idle."""
    keeping = access.Keeping(session)
    mine = keeping.access_of(user_id, needs_container=image is not None)
    if image is not None and not keeping.has_containers:
        raise Problem(
            "no_containers",
            "no node runs containers, and so none can run an image",
            "leave the image away",
            status=422,
        )
    meanings = Names(session).meanings()
    if reason := refuse_reason(request.renamed(meanings), node_views.views(session, idle=True), mine):
        for name in request.kinds & meanings.keys():  # told in the user's own words
            reason = re.sub(rf"\b{re.escape(meanings[name])}\b", name, reason)
        raise Problem("cannot_be_fulfilled", reason, "`pit show nodes` lists what there is", status=422)


def _autoshare(session: Session, job: Job) -> None:
    mine = select(literal(job.id), Membership.group_id).where(
        Membership.user_id == job.user_id, Membership.autoshares
    )
    session.execute(insert(JobGroup).from_select(["job_id", "group_id"], mine))


def _check_snapshot(submission: Submission) -> None:
    snapshot = submission.snapshot
    if (snapshot is None) == (submission.reruns is None):
        raise Problem(
            "bad_field", "a submission has either a snapshot or the number of a job to rerun", status=422
        )
    if snapshot is None:
        return
    remotes.check_snapshot(snapshot)
    if snapshot.pack is not None:
        check_name(snapshot.pack)
    check_text("branch", snapshot.branch or "", MAX_NAME)
    check_text("remote", snapshot.remote_name or "", MAX_NAME)


def _check_continued(session: Session, caller: Caller, number: int) -> None:
    continued = find(session, caller, number)
    if continued.state != JobState.ENDED:
        raise Problem(
            "not_ended",
            f"job {number} is still {continued.state}",
            f"`pit wait {number}` or `pit stop {number}` first: its keep directory must be final",
            status=409,
        )


def _body_hash(home: Path, submission: Submission) -> str:
    submission = replace(submission, variables=variables.marked(home, submission))
    return hashlib.sha256(json.dumps(to_json(submission), sort_keys=True).encode()).hexdigest()


def _row(user_id: int, submission: Submission, origin: Origin, request: str, body: str, now: float) -> Job:
    snapshot = origin.snapshot
    return Job(
        user_id=user_id,
        submission_key=submission.key,
        body_sha256=body,
        title=submission.title.strip(),
        request=request,
        command=submission.command,
        is_private=submission.private,
        continues=submission.continues,
        remote=snapshot.remote,
        remote_name=snapshot.remote_name,
        branch=snapshot.branch,
        commit_hash=snapshot.commit,
        tree_hash=snapshot.tree,
        committed_hash=snapshot.committed,
        base_hash=snapshot.base,
        store_id=origin.store_id,
        reruns=submission.reruns,
        diff_lines=snapshot.diff_lines,
        pack_sha256=snapshot.pack,
        image=submission.image,
        state=JobState.PREPARING,
        attempt=1,
        created_at=now,
        since=now,
    )
