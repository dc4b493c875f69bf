"""`pit checkout`: the exact code of a job, in a directory of its own."""

from collections.abc import Iterator
from pathlib import Path

import click

from pit.args.options import example, job_argument, json_option
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.snapshot.exclude import leave_out
from pit.snapshot.repository import Repository
from pit.ui import output
from pit.ui.documents import Checkout, shown_number
from pit.ui.sanitize import sanitize
from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem
from pit_protocol.transport.tar_extract import extract


@click.command("checkout", epilog=example("pit checkout 190 ../as-of-190"))
@job_argument()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Make a plain directory, even if this project has the commit.")
@json_option
def command(number: int, directory: Path | None, plain: bool, as_json: bool) -> Exit:
    """Check out the code of job NUMBER, with its uncommitted changes and untracked files.

    In a project that has the job's commit, DIRECTORY (default: job-NUMBER) becomes a git worktree of
    that commit, with the job's changes uncommitted. Elsewhere it becomes a plain directory. Files are
    as they were submitted, not as the job left them. A DIRECTORY inside a project is added to its
    .git/info/exclude, so that git and the next `pit run` ignore it.
    """
    with open_head() as head:
        number = find_number(head, number)
        target = directory or Path(f"job-{job_name(number)}")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise Problem("file_exists", f"{target} already exists", "name another directory")
        commit = head.job(number).snapshot.commit
        project = None if plain or not commit else _get_project(commit)
        if project and commit:
            # Without files: the job's are unpacked instead, and git shows what differs as changes.
            project.run(
                "worktree",
                "add",
                "--quiet",
                "--force",  # git still knows a worktree that was here and was deleted
                "--detach",
                "--no-checkout",
                "--",
                str(target.absolute()),
                commit,
            )
        try:
            # A `.git` from elsewhere could name programs that git runs.
            extract(_code(head, number), target, refused=".git")
        except BaseException:
            if project:
                project.run("worktree", "remove", "--force", "--", str(target.absolute()))
            raise
        if project:
            Repository(target).run("reset", "--quiet")
    leave_out([target])
    if as_json:
        output.show_json(Checkout(shown_number(number), str(target), worktree=project is not None))
    else:
        kind = f"a worktree at {sanitize(commit[:12])}" if project and commit else "a plain directory"
        output.show(f"{sanitize(target)}: the code of job {job_name(number)}, {kind}")
    return Exit.DONE


def _get_project(commit: str) -> Repository | None:
    """The project around the current directory, if it has the commit."""
    try:
        project = Repository.find(Path.cwd())
    except Problem:
        return None
    known = project.get_line("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    return project if known else None


def _code(head: Head, number: int) -> Iterator[bytes]:
    with head.code(number) as response:
        yield from head.chunks(response)
