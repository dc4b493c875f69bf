"""`pit download`: a job's directory as one file, whole or not at all."""

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from pit.args.options import LAST, example, job_argument, json_option
from pit.exit_codes import Exit
from pit.head.http_session import Unreachable
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.snapshot.exclude import leaving_out
from pit.transfer import archive
from pit.ui import output
from pit.ui.documents import Download, shown_number
from pit.ui.progress import hint_on_interrupt
from pit.ui.sanitize import sanitize
from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem

STDOUT = "-"


@click.command("download", epilog=example("pit download 190 -o results.tar.gz"))
@job_argument()
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    help="Output file, or - for stdout. Default: job-NUMBER.tar.gz",
)
@click.option("-f", "--force", is_flag=True, help="Overwrite FILE.")
@json_option
def command(number: int, target: str | None, force: bool, as_json: bool) -> Exit:
    """Download the directory of job NUMBER and its log as a .tar.gz archive.

    The files are below job-NUMBER/, the log is job-NUMBER.log.

    Resumes after a broken connection. A failed transfer leaves no file. A FILE inside a project is
    added to its .git/info/exclude, so that git and the next `pit run` ignore it.
    """
    if target == STDOUT and sys.stdout.isatty():
        raise Problem(
            "terminal",
            "refusing to write an archive to a terminal",
            f"use -o FILE, or `pit download {job_name(number) if number else LAST} -o - | tar tz`",
        )
    with open_head() as head:
        number = find_number(head, number)
        if target == STDOUT:
            _pass_on(archive.read(head, number))
            return Exit.DONE
        path = Path(target or f"job-{job_name(number)}.tar.gz")
        archive.check_target(path, force)
        with leaving_out([path]), hint_on_interrupt(f"{path} was not written"):
            size = archive.save(head, number, path, force=force)
    if as_json:
        output.show_json(Download(shown_number(number), str(path), size))
    else:
        output.show(f"{sanitize(path)}: {size:,} bytes")
    return Exit.DONE


def _pass_on(chunks: Iterable[bytes]) -> None:
    stdout = sys.stdout.buffer
    try:
        for chunk in chunks:
            stdout.write(chunk)
        stdout.flush()
    except Unreachable as problem:
        raise Problem(
            problem.code, f"the transfer broke off: {problem.message}", "stdout got only a part"
        ) from problem
