"""`pit exec`: run a command inside a running process of a job."""

import click

from pit.args.options import example, job_argument
from pit.args.process import process_option
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.sessions import terminal
from pit.sessions.command import run

WITH_VALUE = ("-w", "--process", "--worker")


class _Exec(click.Command):
    """Options of the command that is run are not pit's own, with `--` before it or without."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        position = words = 0
        while position < len(args) and args[position] != "--" and words < 2:
            if not args[position].startswith("-"):
                words += 1
            if words < 2:
                position += 2 if args[position] in WITH_VALUE else 1
        if words == 2:
            args = [*args[:position], "--", *args[position:]]
        return super().parse_args(ctx, args)


@click.command(
    "exec",
    cls=_Exec,
    epilog=example("pit exec 190 --process 1 -- nvidia-smi", "pit exec 190 -- tar c . | tar x"),
)
@process_option
@click.option(
    "-t/-T",
    "--tty/--no-tty",
    "wants_terminal",
    default=None,
    help="Give the command a terminal (default: if this one has one), or pipes.",
)
@job_argument()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[--] COMMAND...")
def command(number: int, process: str | None, wants_terminal: bool | None, words: tuple[str, ...]) -> int:
    """Run COMMAND inside a running process of job NUMBER, and exit with its exit code.

    It has the environment, directory, user, GPUs and limits of the process. In pipes, stdin, stdout and
    stderr are passed on byte by byte; on a terminal, keys, colours and the window's size are.
    """
    if not words:
        raise click.UsageError("there is no command: `pit shell NUMBER` opens a shell")
    has_terminal = terminal.is_terminal() if wants_terminal is None else wants_terminal
    with open_head() as head:
        number = find_number(head, number, tell=False)
        return run(head.connection, number, process, words, has_terminal=has_terminal)
