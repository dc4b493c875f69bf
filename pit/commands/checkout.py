"""`pit checkout`: the exact code of a job, in a directory of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from pit import output
from pit.exits import Exit
from pit.head import Head
from pit.ignoring import exactly
from pit.opening import open_head
from pit.options import example, job_number, json_option
from pit.project import Project
from pit.safe import safe
from pit.unpacking import unpack
from pit_protocol.problem import Problem


@click.command("checkout", epilog=example("pit checkout 190 ../as-of-190"))
@click.argument("number", type=job_number)
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@click.option("--plain", is_flag=True, help="Only the files, even if this project has the commit.")
@json_option
def command(number: int, directory: Path | None, plain: bool, as_json: bool) -> Exit:
    """Bring back the code of job NUMBER as it was, uncommitted changes and untracked files included.

    In a project that has the job's commit, DIRECTORY (default: job-NUMBER) becomes a git worktree
    of it, in which what was not committed is not committed again; elsewhere a plain directory. Files
    are as they were when the job was submitted, not as the job left them. A DIRECTORY inside of a
    project is added to its .git/info/exclude: neither git nor the next `pit run` takes it along.
    """
    target = directory or Path(f"job-{number}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Problem("file_exists", f"{target} is there already", "name another directory")
    with open_head() as head:
        commit = head.job(number)["snapshot"]["commit"]
        project = None if plain or not commit else _get_project(commit)
        if project and commit:
            # Without files: those of the job come instead, and what differs is a change to git.
            project.run(
                "worktree",
                "add",
                "--quiet",
                "--detach",
                "--no-checkout",
                "--",
                str(target.absolute()),
                commit,
            )
        try:
            unpack(_code(head, number), target)
        except BaseException:
            if project:
                project.run("worktree", "remove", "--force", "--", str(target.absolute()))
            raise
        if project:
            Project(target).run("reset", "--quiet")
    _leave_out(target)
    if as_json:
        output.show_json({"number": number, "directory": str(target), "worktree": project is not None})
    else:
        kind = f"a worktree at {safe(commit[:12])}" if project and commit else "a plain directory"
        output.show(f"{safe(target)}: the code of job {number}, {kind}")
    return Exit.DONE


def _get_project(commit: str) -> Project | None:
    """The project around the current directory, if it has the commit."""
    try:
        project = Project.find(Path.cwd())
    except Problem:
        return None
    known = project.get_line("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    return project if known else None


def _leave_out(target: Path) -> None:
    """Have the project around the target ignore it, unless it does so already."""
    whole = target.resolve()
    try:
        around = Project.find(whole.parent)
    except Problem:
        return
    place = whole.relative_to(around.top)
    if around.get_line("check-ignore", "--no-index", "--", f"{place}/"):
        return
    file = around.paths["info/exclude"]
    file.parent.mkdir(exist_ok=True)
    with file.open("ab") as lines:
        lines.write(b"\n" + exactly(os.fsencode(place)) + b"/\n")
    named = file.relative_to(around.top) if file.is_relative_to(around.top) else file
    output.tell(f"{target} is ignored by git and `pit run` from now on: {named} names it")


def _code(head: Head, number: int) -> Iterator[bytes]:
    with head.code(number) as response:
        yield from head.chunks(response)
