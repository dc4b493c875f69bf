"""`pit run`: submit the project in the current directory as a job."""

from pathlib import Path
from typing import Any

import click

from pit.args.completers import REQUEST, completer
from pit.args.env import secret_option
from pit.args.job_options import job_options
from pit.args.options import example, json_option, quiet_option
from pit.args.run_mistakes import RunCommand, parse_request
from pit.args.venv import venv_option
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.retry import HeadRetry
from pit.jobs import dry_run, project_run
from pit.jobs.log_follow import show_log, wait_for_end
from pit.login.session import open_head
from pit.snapshot.plain_directory import PlainDirectory
from pit.snapshot.repository import Repository
from pit.ui import output, render
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.problem import Problem

COMPUTE_FILE = ".compute"
REQUEST_FILE = ".pitrequest.txt"
IMAGE_FILE = ".pitimage.txt"
DEFAULT_REQUEST = "[]"


@click.command(
    "run", cls=RunCommand, epilog=example("pit run \"First light\" '[2:gtx1070]' -d 'nvidia-smi; env' -l")
)
@click.argument("title")
@click.argument("request", required=False, shell_complete=completer(REQUEST))
@job_options()
@venv_option
@click.option("-l", "--log", "follow", is_flag=True, help="Follow the log; exit code 3 if the job fails.")
@secret_option
@click.option("-a", "--archive", is_flag=True, help="Send this directory as it is, without git.")
@click.option("--bundle", is_flag=True, help="Send all objects, so that the head does not need the remote.")
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
    process without a GPU. .pitimage.txt in the project root sets the default of --image, and
    .pitenv that of --venv.

    All files that git does not ignore are sent as they are on disk, committed or not, including
    those of submodules. Files that match .pitignore are left out, and so are untracked files that
    look like secrets (.env, *.pem, id_rsa …) unless --include names them. -l with --json prints the
    job's record, then its log lines, then its record when it has ended.
    """
    parsed = parse_request(request, title=title) if request is not None else None
    project = PlainDirectory(Path.cwd()) if archive else Repository.find(Path.cwd())
    if is_dry:
        with project_run.take_snapshot(project, include, with_remote=not bundle) as worktree:
            dry_run.show(worktree, as_json=as_json)
        return Exit.DONE
    title = _checked_title(title)
    options = project_run.make_options(project, given, wants_venv)
    project_run.check(project, title, options, secrets)
    asked = parsed or project_run.find_request(project)
    with open_head() as head:
        record = project_run.submit_project(
            head, project, title, asked, options, secrets, include=include, with_remote=not bundle
        )
        return accepted(head, record, follow=follow, quiet=quiet, as_json=as_json)


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


def _checked_title(title: str) -> str:
    try:
        return project_run.check_title(title)
    except Problem as problem:
        raise click.BadParameter(problem.message) from None
