"""Submit a project as a job: what the files in its root say, and a snapshot of all of them."""

import shlex
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pit.args.run_mistakes import looks_like_commands, meant_kind, parse_request
from pit.args.venv import list_files, venv_options
from pit.head.client import Head
from pit.head.latest import find_options
from pit.jobs.submission import submit_worktree
from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.repository import Repository
from pit.text_files import read_text
from pit.ui import output
from pit.ui.progress import announce_if_slow
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.arrays.elements import check_names, parse_elements
from pit_protocol.job_options import JobOptions
from pit_protocol.messages.submission import MAX_TITLE, Submission
from pit_protocol.problem import Problem
from pit_protocol.variables import check_job_variables

COMPUTE_FILE = ".compute"
REQUEST_FILE = ".pitrequest.txt"
IMAGE_FILE = ".pitimage.txt"
DEFAULT_REQUEST = "[]"


def make_options(project: Repository, given: Mapping[str, Any], wants_venv: bool | None) -> JobOptions:
    """The options of a job: those that were given, and those of files in the project."""
    image = (read_text(project.top / IMAGE_FILE) or "").strip() or None
    return JobOptions(**{"image": image, **given, **venv_options(project.top, dict(given), wants_venv)})


def find_request(project: Repository) -> str:
    """The request of a job that names none."""
    path = project.top / REQUEST_FILE
    text = (read_text(path) or "").strip()
    return parse_request(text, f"{path}: ") if text else DEFAULT_REQUEST


def check_title(title: str) -> str:
    title = title.strip()
    if not title or len(title) > MAX_TITLE:
        raise Problem("bad_title", f"a title has 1 to {MAX_TITLE} characters, not {len(title)}")
    return title


def check(project: Repository, title: str, options: JobOptions, secrets: Mapping[str, str]) -> None:
    """Refuse what cannot run, before the project is read."""
    if options.command is None and not (project.top / COMPUTE_FILE).is_file():
        raise Problem(
            "no_compute",
            f"there is no {COMPUTE_FILE} in {project.top}",
            f"write `pit run TITLE -d {shlex.quote(title)}`"
            if looks_like_commands(title)
            else "write one (bash, run by every process), or give commands with -d",
        )
    check_job_variables(options.env, secrets)
    if elements := parse_elements(options.array, options.sweep):
        check_names(elements.axes, options.env, secrets)


def submit_project(
    head: Head,
    project: Repository,
    title: str,
    request: str,
    options: JobOptions,
    secrets: Mapping[str, str],
    *,
    include: Sequence[str] = (),
    with_remote: bool = True,
) -> JobRecord:
    """Take a snapshot of the project, send it, and submit the job."""
    with take_snapshot(project, tuple(include), with_remote=with_remote) as worktree:
        _check_files(worktree, options)
        options = find_options(head, options)
        submission = Submission(uuid.uuid4().hex, title, request, options=options, variables=dict(secrets))
        try:
            return submit_worktree(head, worktree, lambda code: replace(submission, snapshot=code))
        except Problem as problem:
            if problem.code != "cannot_be_fulfilled" or not (hint := meant_kind(request)):
                raise
            raise Problem(problem.code, problem.message, hint, status=problem.status) from problem


@contextmanager
def take_snapshot(
    project: Repository, include: tuple[str, ...] = (), *, with_remote: bool = True
) -> Iterator[WorktreeSnapshot]:
    """Take a snapshot of the project and print its notes."""
    with tempfile.TemporaryDirectory(prefix="pit-", ignore_cleanup_errors=True) as scratch:
        with announce_if_slow("reading the project"):
            worktree = WorktreeSnapshot(project, Path(scratch), include, with_remote=with_remote)
        for note in worktree.notes:
            output.note(note)
        yield worktree


def _check_files(worktree: WorktreeSnapshot, options: JobOptions) -> None:
    """Check that the files which a process starts with are part of the snapshot."""
    needed = [COMPUTE_FILE] if options.command is None else []
    for name in [*needed, *(list_files(options.venv) if options.venv else ())]:
        if not worktree.has(name):
            raise Problem(
                "compute_ignored" if name == COMPUTE_FILE else "requirements_ignored",
                f"{name} is ignored by git and would be left out",
                f"`git check-ignore -v {name}` shows the rule",
            )
