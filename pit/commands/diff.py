"""`pit diff`: a job's uncommitted changes, or everything that differs between two jobs."""

import sys
from collections.abc import Iterable, Iterator

import click

from pit.args.env import render_differences
from pit.args.options import complete_job, example, job_argument, job_number, json_option
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.ui import output
from pit.ui.documents import JobDiff
from pit.ui.sanitize import sanitize, sanitize_log
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.job_options import OPTIONS

SETTINGS = ("title", "user", "request")
CODE = ("remote", "branch", "commit", "tree")
COLOURS = ((b"+++", "1"), (b"---", "1"), (b"diff ", "1"), (b"@@", "36"), (b"+", "32"), (b"-", "31"))


@click.command("diff", epilog=example("pit diff 190 191"))
@job_argument(is_optional=True)
@click.argument("other", type=job_number, required=False, shell_complete=complete_job)
@json_option
def command(number: int, other: int | None, as_json: bool) -> Exit:
    """Show the uncommitted changes that job NUMBER, or your latest job, was submitted with.

    With OTHER, show everything that differs between the two jobs: settings, image, variables (of
    secrets only the names), and each line of code. In a pipe the code is a patch for `git apply`.
    """
    with open_head() as head:
        number = find_number(head, number)
        other = None if other is None else find_number(head, other)
        settings = _settings(head, number, other) if other else {}
        variables = head.compare_variables(number, other) if other else None
        if as_json:
            output.show_json(JobDiff(number, other, settings, variables, _text(head, number, other)))
            return Exit.DONE
        lines = [
            f"# {name}: {sanitize(_plain(before))} -> {sanitize(_plain(after))}"
            for name, (before, after) in settings.items()
        ] + (render_differences(variables) if variables else [])
        for line in lines:
            output.show(line)
        if not _pass_on(_chunks(head, number, other)) and not lines:
            same = (
                f"jobs {number} and {other} do not differ" if other else f"all of job {number} was committed"
            )
            output.note(same)
    return Exit.DONE


def _settings(head: Head, number: int, other: int) -> dict[str, tuple[object, object]]:
    """The settings in which the two jobs differ."""
    one, two = _asked(head.job(number)), _asked(head.job(other))
    names = [name for name in one | two if one.get(name) != two.get(name)]
    return {name: (one.get(name), two.get(name)) for name in names}


def _asked(record: JobRecord) -> dict[str, object]:
    ran = sorted({process.image for process in record.processes if process.image})
    code = {name: getattr(record.snapshot, name) for name in CODE}
    asked = {name: getattr(record, name) for name in SETTINGS}
    asked |= {name: record.options.shown(name) or None for name in OPTIONS if name != "env"}
    variables = {f"env.{name}": value for name, value in sorted(record.options.env.items())}
    return {**asked, "image digest": ", ".join(ran) or None, **code, **variables}


def _chunks(head: Head, number: int, other: int | None) -> Iterator[bytes]:
    with head.diff(number, other) as response:
        yield from head.chunks(response)


def _text(head: Head, number: int, other: int | None) -> str:
    return b"".join(_chunks(head, number, other)).decode("utf-8", "backslashreplace")


def _pass_on(chunks: Iterable[bytes]) -> bool:
    """Show a patch; whether there was anything in it."""
    has_some = False
    if not output.is_terminal():
        sys.stdout.flush()
        for chunk in chunks:
            has_some = has_some or bool(chunk)
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return has_some
    for line in _lines(chunks):
        has_some = True
        colour = next((code for prefix, code in COLOURS if line.startswith(prefix)), "")
        text = sanitize_log(line.decode("utf-8", "backslashreplace"), colour=False)
        output.show(f"\x1b[{colour}m{text}\x1b[0m" if colour and output.has_colour() else text)
    return has_some


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    if rest:
        yield rest


def _plain(value: object) -> str:
    return "-" if value is None else str(value)
