"""`pit diff`: a job's uncommitted changes, or everything that differs between two jobs."""

import sys
from collections.abc import Iterable, Iterator

import click
from msgspec import UNSET

from pit.args.completers import complete_job
from pit.args.env import render_differences
from pit.args.options import example, job_argument, job_number, json_option
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.ui import output
from pit.ui.documents import JobDiff, shown_number
from pit.ui.plural import plural
from pit.ui.sanitize import sanitize, sanitize_log
from pit.ui.tables import Column, Section
from pit_protocol.answers.jobs import DiffStat, JobRecord
from pit_protocol.arrays.numbers import job_name
from pit_protocol.job_options import OPTIONS

SETTINGS = ("title", "user", "request")
CODE = ("remote", "branch", "commit", "tree")
COUNTS = (
    Column("ADDED", right=True),
    Column("REMOVED", right=True),
    Column("FILE", flexible=True, importance=9),
)
COLOURS = ((b"+++", "1"), (b"---", "1"), (b"diff ", "1"), (b"@@", "36"), (b"+", "32"), (b"-", "31"))


@click.command("diff", epilog=example("pit diff 190 191", "pit diff 190 --stat"))
@job_argument(is_optional=True)
@click.argument("other", type=job_number, required=False, shell_complete=complete_job)
@click.option("--stat", "counts", is_flag=True, help="Only count the lines of each file.")
@click.option("--binary", is_flag=True, help="Include binary files, so that `git apply` accepts the patch.")
@json_option
def command(number: int, other: int | None, counts: bool, binary: bool, as_json: bool) -> Exit:
    """Show the uncommitted changes that job NUMBER, or your latest job, was submitted with.

    With OTHER, show everything that differs between the two jobs: settings, image, variables (for
    secrets, only the names), and each line of code. In a pipe, the code is a patch for `git apply`.
    A binary file is one line unless --binary is given.
    """
    with open_head() as head:
        number = find_number(head, number)
        other = None if other is None else find_number(head, other)
        settings = _settings(head, number, other) if other else {}
        variables = head.compare_variables(number, other) if other else None
        stat = head.diff_stat(number, other) if counts else None
        if as_json:
            text = _text(head, number, other, binary) if stat is None else UNSET
            shown = None if other is None else shown_number(other)
            output.show_json(JobDiff(shown_number(number), shown, settings, variables, text, stat or UNSET))
            return Exit.DONE
        lines = [
            f"# {name}: {sanitize(_plain(before))} -> {sanitize(_plain(after))}"
            for name, (before, after) in settings.items()
        ] + (render_differences(variables) if variables else [])
        for line in lines:
            output.show(line)
        has_some = _show_counts(stat) if stat else _pass_on(_chunks(head, number, other, binary))
        if not has_some and not lines:
            same = (
                f"jobs {job_name(number)} and {job_name(other)} do not differ"
                if other
                else f"all of job {job_name(number)} was committed"
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
    variables = {
        f"env.{name}": value for name, value in sorted({**record.options.env, **record.sweep}.items())
    }
    return {**asked, "image digest": ", ".join(ran) or None, **code, **variables}


def _chunks(head: Head, number: int, other: int | None, binary: bool) -> Iterator[bytes]:
    with head.diff(number, other, binary=binary) as response:
        yield from head.chunks(response)


def _text(head: Head, number: int, other: int | None, binary: bool) -> str:
    return b"".join(_chunks(head, number, other, binary)).decode("utf-8", "backslashreplace")


def _show_counts(stat: DiffStat) -> bool:
    """Show how many lines of each file differ; whether there was anything."""
    if not stat.files:
        return False
    rows = [
        ("binary", "", sanitize(change.path))
        if change.added is None
        else (f"{change.added:,}", f"{change.removed:,}", sanitize(change.path))
        for change in stat.changes
    ]
    output.show_table(COUNTS, [Section("", rows, stat.files - len(rows))])
    lines = f"{plural(stat.added, 'line')} added, {stat.removed:,} removed"
    output.show(f"{plural(stat.files, 'file')}, {lines}")
    return True


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
