"""Submissions: what the head checks before it accepts a job, and how it stores it."""

import hashlib
import json
import re
from pathlib import Path

from msgspec.structs import replace
from sqlalchemy import insert, literal, select
from sqlalchemy.orm import Session

from pit_grammar import Request, RequestError, parse
from pit_protocol import job_options
from pit_protocol.arrays.elements import check_names, parse_elements
from pit_protocol.arrays.numbers import array_of, job_name
from pit_protocol.job_options import ANY, DOCKER, OPTIONS, JobOptions
from pit_protocol.messages.submission import MAX_TITLE, Submission, check_venv
from pit_protocol.problem import Problem
from pit_protocol.states import JobEvent, JobState
from pit_protocol.variables import check_job_variables
from pit_protocol.wire import to_json
from pit_server.db.database import note_event, notify_after_commit
from pit_server.db.memo import remembered
from pit_server.db.models import Job, JobGroup, Membership
from pit_server.scheduler.explain import refusal_reason
from pit_server.services.jobs import dependencies, images, jobs, time_limits, user_variables
from pit_server.services.jobs.arrays.elements import elements_of
from pit_server.services.jobs.processes import runtimes
from pit_server.services.nodes.aliases import kind_names
from pit_server.services.notifications import channels
from pit_server.services.scheduling.limits import count_gpus
from pit_server.services.scheduling.nodes import idle_nodes
from pit_server.services.scheduling.queue import default_needs
from pit_server.services.sites import site_jobs
from pit_server.services.snapshots import remote_check
from pit_server.services.snapshots.origins import Origin
from pit_server.services.users import access, limits, shares
from pit_server.services.users.tokens import Caller
from pit_server.services.validation import check_text
from pit_server.settings import Settings
from pit_server.store.pack_uploads import check_name
from pit_server.wakeups import PREPARER, STATUS

MAX_KEY = 64
MAX_NAME = 200


def check_submission(submission: Submission, settings: Settings) -> Request:
    """Run every check that needs no database; returns the parsed request."""
    check_text("key", submission.key, MAX_KEY, shortest=1)
    check_text("title", submission.title.strip(), MAX_TITLE, shortest=1)
    _check_options(submission.options, settings)
    check_job_variables(submission.options.env, submission.variables)
    _check_array(submission, settings)
    _check_snapshot(submission)
    try:
        return parse(submission.request)
    except RequestError as error:
        raise Problem("bad_request", str(error), status=422) from error


def accept_submission(
    session: Session,
    caller: Caller,
    submission: Submission,
    request: Request,
    origin: Origin,
    *,
    settings: Settings,
    now: float,
) -> tuple[int, bool]:
    """Store a job; returns its number and whether it is new: the same submission sent twice is one job."""
    assert caller.user_id is not None  # noqa: S101 - the route admits users only
    home = settings.home
    body = _body_hash(home, submission)
    known = _find_known(session, caller.user_id, submission.key, body)
    if known is not None:
        return known, False
    submission = _resolve(session, caller, submission, request, settings, now=now)
    booked = request.with_defaults(default_needs(settings))
    if not site_jobs.check(session, caller.user_id, booked, submission.options):
        _check_possible(session, caller.user_id, booked, submission.options, now=now)
    origin.check()
    needed = dependencies.find(session, caller, submission.options.after)
    inherited = None
    if submission.inherits is not None:
        inherited = jobs.find(session, caller, array_of(submission.inherits))
    job = _row(caller.user_id, submission, origin, str(request), body, now)
    job.notify = submission.options.notify or ""
    job.variables = user_variables.seal_all(home, caller.user_id, submission, inherited)
    session.add(job)
    session.flush()
    dependencies.store(session, job.id, needed)
    if not submission.options.private:
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
    notify_after_commit(session, PREPARER, STATUS)
    return job.id, True


def _find_known(session: Session, user_id: int, key: str, body: str) -> int | None:
    """The job that this submission has made already."""
    known = session.execute(
        select(Job.id, Job.body_sha256).where(Job.user_id == user_id, Job.submission_key == key)
    ).one_or_none()
    if known is None:
        return None
    if known.body_sha256 != body:
        raise Problem(
            "key_reused", f"this key belongs to job {known.id}, whose submission differs", status=422
        )
    return int(known.id)


def _resolve(
    session: Session,
    caller: Caller,
    submission: Submission,
    request: Request,
    settings: Settings,
    *,
    now: float,
) -> Submission:
    """Check the user's limits, and fill in the options that depend on the user and the settings."""
    assert caller.user_id is not None  # noqa: S101 - the route admits users only
    accounts = limits.find_accounts(session, settings).of_user(caller.user_id)
    limits.check_waiting(session, accounts)
    options, continued = submission.options, None
    if options.continues is not None:
        continued = _find_continued(session, caller, options)
    options = time_limits.resolve(options, settings, accounts, now=now)
    limits.check_job(accounts, count_gpus(request), time_limits.limit_s(to_json(options)))
    runtime = runtimes.resolve(options, continued.options if continued else None, settings.default_runtime)
    priority = shares.resolve_priority(session, caller, options.priority)
    notify = channels.resolve(session, caller, options.notify)
    options = replace(options, runtime=runtime, priority=priority, notify=notify or None)
    return replace(submission, options=options)


def _check_options(options: JobOptions, settings: Settings) -> None:
    for name, option in OPTIONS.items():
        value = getattr(options, name)
        if isinstance(value, str):
            job_options.check_text(name, value)
            check_text(name, value, option.most)
    job_options.check_placement(options)
    job_options.check_retry(options, settings.max_retries)
    check_venv(options.venv, options.python)
    dependencies.check(options.after, settings.max_dependencies)
    if options.image is not None:
        images.check(options.image, settings)
    runtimes.check(options)


def _check_array(submission: Submission, settings: Settings) -> None:
    options = submission.options
    elements = parse_elements(options.array, options.sweep)
    if elements is None:
        return
    check_names(elements.axes, options.env, submission.variables)
    if (count := len(elements.indices)) > settings.max_array:
        raise Problem(
            "bad_array",
            f"an array has at most {settings.max_array:,} elements here, and this has {count:,}",
            "submit several arrays, or let each element do more",
            status=422,
        )
    if options.continues is not None:
        raise Problem(
            "bad_array",
            "an array cannot continue another job",
            "leave out --continue, or continue a single element: `pit run -c 190.7`",
            status=422,
        )


def _check_snapshot(submission: Submission) -> None:
    snapshot = submission.snapshot
    if (snapshot is None) == (submission.reruns is None):
        raise Problem(
            "bad_field", "a submission needs either a snapshot or the number of a job to rerun", status=422
        )
    if snapshot is None:
        return
    remote_check.check_snapshot(snapshot)
    if snapshot.pack is not None:
        check_name(snapshot.pack)
    check_text("branch", snapshot.branch or "", MAX_NAME)
    check_text("remote", snapshot.remote_name or "", MAX_NAME)


def _check_possible(
    session: Session, user_id: int, request: Request, options: JobOptions, *, now: float
) -> None:
    """Refuse a request that this user could not get even on an idle cluster."""
    resources = access.resource_access(session)
    runtime = runtimes.needed(to_json(options))
    mine = resources.access_of(user_id, runtime)
    if options.image is not None and not resources.has_runtime(DOCKER):
        raise Problem(
            "no_containers",
            "no node of this cluster runs containers",
            "submit the job without an image",
            status=422,
        )
    if runtime != ANY and not resources.has_runtime(runtime):
        raise Problem(
            "no_such_runtime",
            f"no node of this cluster has the {runtime} runtime",
            "`pit show nodes` lists runtimes; --runtime any takes each of them",
            status=422,
        )
    meanings = kind_names(session).kinds()
    if reason := refusal_reason(request.renamed(meanings), idle_nodes(session, now=now), mine):
        for name in request.kinds & meanings.keys():  # use the names from the request
            reason = re.sub(rf"\b{re.escape(meanings[name])}\b", name, reason)
        raise Problem("cannot_be_fulfilled", reason, "`pit show nodes` lists what exists", status=422)


def _find_continued(session: Session, caller: Caller, options: JobOptions) -> Job:
    number = options.continues or 0
    continued, name = jobs.find(session, caller, number), job_name(number)
    if continued.array_size is not None:
        raise Problem(
            "is_array",
            f"job {name} is an array, and each of its elements has its own keep directory",
            f"name one, such as {name}.{elements_of(continued.options).indices[0]}",
            status=409,
        )
    if continued.state != JobState.ENDED and number not in {each.job for each in options.after}:
        raise Problem(
            "not_ended",
            f"job {name} is still {continued.state}",
            f"add `--after {name}` to wait for its end, or `pit stop {name}`: its keep must be final",
            status=409,
        )
    return continued


def _body_hash(home: Path, submission: Submission) -> str:
    submission = replace(submission, variables=user_variables.fingerprints(home, submission))
    return hashlib.sha256(json.dumps(to_json(submission), sort_keys=True).encode()).hexdigest()


def _row(user_id: int, submission: Submission, origin: Origin, request: str, body: str, now: float) -> Job:
    snapshot = origin.snapshot
    elements = parse_elements(submission.options.array, submission.options.sweep)
    return Job(
        user_id=user_id,
        submission_key=submission.key,
        body_sha256=body,
        title=submission.title.strip(),
        request=request,
        options=to_json(submission.options),
        needs_container=runtimes.needed(to_json(submission.options)) == DOCKER,
        remote=snapshot.remote,
        remote_name=snapshot.remote_name,
        branch=snapshot.branch,
        commit_hash=snapshot.commit,
        tree_hash=snapshot.tree,
        committed_hash=snapshot.committed,
        base_hash=snapshot.base,
        store_id=origin.store_id,
        reruns=None if submission.reruns is None else array_of(submission.reruns),
        diff_lines=snapshot.diff_lines,
        keeps_pointers=snapshot.keeps_pointers,
        pack_sha256=snapshot.pack,
        state=JobState.PREPARING,
        attempt=1,
        created_at=now,
        since=now,
        array_size=len(elements.indices) if elements else None,
        array_next=elements.indices[0] if elements else None,
    )


def _autoshare(session: Session, job: Job) -> None:
    sharing = select(Membership.user_id).where(Membership.autoshares)
    users = remembered(
        session, "users who share", (Membership,), lambda reader: set(reader.execute(sharing).scalars())
    )
    if job.user_id not in users:
        return
    mine = select(literal(job.id), Membership.group_id).where(
        Membership.user_id == job.user_id, Membership.autoshares
    )
    session.execute(insert(JobGroup).from_select(["job_id", "group_id"], mine))
