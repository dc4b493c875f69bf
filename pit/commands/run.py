"""`pit run`: submit the project in the current directory as a job."""

import shlex
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from pit.args.env import secret_option
from pit.args.job_options import job_options
from pit.args.options import example, json_option, quiet_option
from pit.args.run_mistakes import RunCommand, looks_like_commands, meant_kind, parse_request
from pit.args.venv import list_files, venv_option, venv_options
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.latest import find_options
from pit.head.retry import HeadRetry
from pit.jobs import dry_run
from pit.jobs.log_follow import show_log, wait_for_end
from pit.jobs.submission import submit_worktree
from pit.login.session import open_head
from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.plain_directory import PlainDirectory
from pit.snapshot.repository import Repository
from pit.text_files import read_text
from pit.ui import output, render
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


@click.command(
    "run", cls=RunCommand, epilog=example("pit run \"First light\" '[2:gtx1070]' -d 'nvidia-smi; env' -l")
)
@click.argument("title")
@click.argument("request", required=False)
@job_options()
@venv_option
@click.option("-l", "--log", "follow", is_flag=True, help="Follow the log; exit code 3 if the job fails.")
@secret_option
@click.option("-a", "--archive", is_flag=True, help="Send this directory as it is, without git.")
@click.option("--bundle", is_flag=True, help="Send all objects; the head need not reach the remote.")
@click.option(
    "--include",
    metavar="NAME",
    multiple=True,
    help="Send this untracked file although it looks like a secret.",
)
@click.option("--dry-run", "is_dry", is_flag=True, help="Only list what would be sent.")
@quiet_option
@json_option
def command(
    title: str,
    request: str | None,
    given: dict[str, Any],
    wants_venv: bool | None,
    follow: bool,
    secrets: dict[str, str],
    archive: bool,
    bundle: bool,
    include: tuple[str, ...],
    is_dry: bool,
    quiet: bool,
    as_json: bool,
) -> Exit:
    """Submit the project around the current directory as a new job.

    TITLE is a short description. REQUEST says what the job needs: `2:[8:gtx1070]` is two processes
    with eight of these GPUs each. The default is .pitrequest.txt in the project root, or else one
    process without a GPU. .pitimage.txt in the project root sets the default of --image, and .pitenv
    that of --venv.

    All files that git does not ignore are sent as they are on disk, committed or not, including those
    of submodules. Files that match .pitignore are left out, and so are untracked files that look like
    secrets (.env, *.pem, id_rsa …) unless --include names them. -l with --json prints the job's record,
    then its log lines, then its record when it has ended.
    """
    parsed = parse_request(request, title=title) if request is not None else None
    project = PlainDirectory(Path.cwd()) if archive else Repository.find(Path.cwd())
    if is_dry:
        with take_snapshot(project, include, with_remote=not bundle) as worktree:
            dry_run.show(worktree, as_json=as_json)
        return Exit.DONE
    title = _checked_title(title)
    given |= venv_options(project.top, given, wants_venv)
    options = JobOptions(**{"image": _default_image(project), **given})
    if options.command is None:
        _check_compute(project, title)
    check_job_variables(options.env, secrets)
    if elements := parse_elements(options.array, options.sweep):
        check_names(elements.axes, options.env, secrets)
    asked = parsed or _default_request(project)
    with open_head() as head, take_snapshot(project, include, with_remote=not bundle) as worktree:
        _check_files(worktree, options)
        submission = Submission(
            uuid.uuid4().hex, title, asked, options=find_options(head, options), variables=secrets
        )
        try:
            record = submit_worktree(head, worktree, lambda code: replace(submission, snapshot=code))
        except Problem as problem:
            if problem.code != "cannot_be_fulfilled" or not (hint := meant_kind(asked)):
                raise
            raise Problem(problem.code, problem.message, hint, status=problem.status) from problem
        return accepted(head, record, follow=follow, quiet=quiet, as_json=as_json)


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


def accepted(head: Head, record: JobRecord, *, follow: bool, quiet: bool, as_json: bool) -> Exit:
    """Print the new job, and follow its log if `follow` is set."""
    if as_json:
        output.show_json(record)
    else:
        output.show(str(record.number) if quiet else render.accepted_text(record))
    return _follow(head, record.number, as_json) if follow else Exit.DONE


def _follow(head: Head, number: int, as_json: bool) -> Exit:
    if not as_json:
        output.show("")
    code = show_log(head, number, {}, as_json=as_json, met=True)
    if code is not Exit.DONE:
        return code
    record = wait_for_end(head, number, HeadRetry(output.note, met=True))
    if as_json:
        output.show_json(record)
    if record.outcome == "succeeded":
        return Exit.DONE
    output.note(render.ending(record))
    return Exit.JOB_FAILED


def _default_request(project: Repository) -> str:
    path = project.top / REQUEST_FILE
    text = (read_text(path) or "").strip()
    return parse_request(text, f"{path}: ") if text else DEFAULT_REQUEST


def _default_image(project: Repository) -> str | None:
    return (read_text(project.top / IMAGE_FILE) or "").strip() or None


def _checked_title(title: str) -> str:
    title = title.strip()
    if not title or len(title) > MAX_TITLE:
        raise click.BadParameter(f"a title has 1 to {MAX_TITLE} characters, not {len(title)}")
    return title


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


def _check_compute(project: Repository, title: str) -> None:
    if not (project.top / COMPUTE_FILE).is_file():
        raise Problem(
            "no_compute",
            f"there is no {COMPUTE_FILE} in {project.top}",
            f"write `pit run TITLE -d {shlex.quote(title)}`"
            if looks_like_commands(title)
            else "write one (bash, run by every process), or give commands with -d",
        )
