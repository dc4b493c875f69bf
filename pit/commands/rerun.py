"""`pit rerun`: run an old job again, or the current code with an old job's settings."""

import uuid
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from pit.args.completers import REQUEST, completer
from pit.args.env import secret_option
from pit.args.job_options import job_options
from pit.args.options import example, job_argument, json_option, quiet_option
from pit.args.run_mistakes import parse_request
from pit.args.usage_problem import UsageProblem
from pit.commands.run import accepted
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.latest import find_number, find_options
from pit.jobs.project_run import take_snapshot
from pit.jobs.submission import submit, submit_worktree
from pit.login.session import open_head
from pit.snapshot.repository import Repository
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.arrays.elements import only
from pit_protocol.messages.submission import Snapshot, Submission
from pit_protocol.problem import Problem
from pit_protocol.variables import check_job_variables


@click.command("rerun", epilog=example("pit rerun 190 --request '4:[a100]' -l"))
@job_argument()
@click.option(
    "--request",
    metavar="REQUEST",
    shell_complete=completer(REQUEST),
    help="Use this request instead of the old one.",
)
@click.option("--title", metavar="TITLE", help="Use this title instead of the old one.")
@job_options(rerun=True)
@secret_option
@click.option("--failed", is_flag=True, help="Run only the failed elements of an array.")
@click.option("--here", is_flag=True, help="Use the code of the current project instead of the old code.")
@click.option("-l", "--log", "follow", is_flag=True, help="Follow the log; exit code 3 if the job fails.")
@quiet_option
@json_option
def command(
    number: int,
    request: str | None,
    title: str | None,
    given: dict[str, Any],
    secrets: dict[str, str],
    failed: bool,
    here: bool,
    follow: bool,
    quiet: bool,
    as_json: bool,
) -> Exit:
    """Run job NUMBER again as a new job with the same code, commands, image, variables and request.

    The head still has the code, so your current directory and later changes to the project do not
    matter. The keep directory starts empty; `pit run -c` continues with an old one. -e and --secret
    add or replace variables. To rerun another user's job, give all of its secrets again.

    An array is run again as a whole; 190.7 runs one element of it, and --failed only the elements
    that failed, were lost or timed out. Elements keep their indices and values.
    """
    if request is not None:
        request = parse_request(request)
    check_job_variables(given.get("env", {}), secrets)
    with open_head() as head:
        number = find_number(head, number)
        old = head.job(number)
        options = find_options(head, old.options.for_rerun(given))
        if failed:
            options = replace(options, array=_failed(head, old))
        # A variable that was plain is secret from now on.
        plain = {name: value for name, value in options.env.items() if name not in secrets}

        def submission(snapshot: Snapshot | None) -> Submission:
            return Submission(
                uuid.uuid4().hex,
                title or old.title,
                request or old.request,
                snapshot,
                reruns=None if snapshot else number,
                options=replace(options, env=plain),
                variables=secrets,
                inherits=number,
            )

        if not here:
            record = submit(head, submission(None))
        else:
            with take_snapshot(Repository.find(Path.cwd())) as worktree:
                record = submit_worktree(head, worktree, submission)
        return accepted(head, record, follow=follow, quiet=quiet, as_json=as_json)


def _failed(head: Head, old: JobRecord) -> str:
    """What names the failed elements of an array."""
    if old.elements is None:
        raise UsageProblem(f"job {old.name} is not an array", "leave out --failed")
    failed = head.elements(old.number, failed=True).elements
    found = [element.index for element in failed if element.index is not None]
    if not found:
        raise Problem("none_failed", f"no element of job {old.name} has failed", f"`pit show {old.name}`")
    return only(old.options.array, old.options.sweep, found)
