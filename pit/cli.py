"""The command `pit`: finds the subcommand, and turns what went wrong into a sentence and an exit code."""

import importlib
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, NoReturn

import click

from pit.exits import Exit
from pit_protocol import __version__
from pit_protocol.problem import Problem

COMMANDS = {
    "run": "Enqueue the project around the current directory as a new job.",
    "rerun": "Run an old job's code, or its settings, again.",
    "diff": "Show what a job had uncommitted, or how two jobs differ.",
    "checkout": "Bring back the exact code of a job.",
    "log": "Print a job's log and follow it.",
    "status": "Show running, waiting and done jobs.",
    "stop": "Stop jobs.",
    "wait": "Wait until jobs have ended.",
    "ls": "List what is in a data directory.",
    "cat": "Print a file of a data directory.",
    "pull": "Copy out of a data directory.",
    "push": "Copy into a data directory.",
    "sync": "Send what is new or changed here to a data directory.",
    "restore": "Bring back what is in the trash.",
    "download": "Download a job's directory as .tar.gz archive.",
    "mount": "Mount a data directory as a local file system.",
    "show": "Show jobs, nodes, people, groups and more.",
    "add": "Add a user, group, node or alias.",
    "set": "Change properties of something.",
    "get": "Print one property of something.",
    "remove": "Remove something.",
    "add-group": "Put a user, job, node or resource into a group.",
    "remove-group": "Take one of them out of a group.",
    "connect": "Make a head known, and log in there.",
    "login": "Log in at the head, or register.",
    "logout": "Revoke and forget this machine's token.",
    "trust": "Trust the head that a project names.",
    "profile": "Keep several heads under names.",
    "up": "Start a head and a worker on this machine.",
    "down": "Stop the head and the worker of `pit up`.",
}
ALIASES = {"put": "run", "rm": "remove", "cp": "pull"}


class Pit(click.Group):
    """Imports a command's module when it is called, for most of them need little."""

    debug = False

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"pit.commands.{name.replace('-', '_')}").command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        names = {original: alias for alias, original in ALIASES.items()}
        rows = [
            (f"{name}, {names[name]}" if name in names else name, text) for name, text in COMMANDS.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run, and exit with a code of `Exit`."""
        self.debug = False
        kwargs.update(prog_name="pit", standalone_mode=False)
        try:
            code = super().main(*args, **kwargs)
        except Exception as error:
            if self.debug:
                import traceback

                traceback.print_exception(error)
            code = _explain(error)
        sys.exit(code or Exit.DONE)


@click.command(
    cls=Pit,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  pit run \"First light\" '[2:gtx1070]' -l",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="pit", message="%(prog)s %(version)s")
@click.pass_context
def pit(ctx: click.Context, debug: bool) -> None:
    """Run the git project you stand in on a cluster, and see what becomes of it."""
    if isinstance(ctx.command, Pit):
        ctx.command.debug = debug


def _leave(number: int, _frame: object) -> NoReturn:
    # As by Ctrl-C: what is in the making is cleaned up on the way out.
    sys.exit(128 + number)


def main() -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # and not ignored, as under nohup
            signal.signal(number, _leave)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an odd locale must not turn a title into a traceback
            stream.reconfigure(errors="backslashreplace")
    try:
        pit.main()
    except SystemExit as leaving:
        if leaving.code and threading.active_count() > 1:
            _leave_at_once(int(leaving.code))
        raise


def _leave_at_once(code: int) -> NoReturn:
    """Python would wait for threads of a transfer that broke off, however long they take."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _explain(error: Exception) -> Exit:
    from pit.output import tell

    if isinstance(error, Problem):
        tell(error.message, error.hint)
        return Exit.PROBLEM
    if isinstance(error, click.Abort):
        return Exit.INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Exit.USAGE
    if isinstance(error, click.ClickException):
        tell(_usage_sentence(error), _usage_hint(error))
        return Exit.USAGE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        tell(f"{where}{(error.strerror or str(error)).lower()}")
        return Exit.PROBLEM
    tell(f"internal error: {type(error).__name__}: {error}", "`pit --debug …` shows where it comes from")
    return Exit.PROBLEM


def _usage_sentence(error: click.ClickException) -> str:
    # A message of our own types is a sentence already; click would begin it with "Invalid value".
    own = isinstance(error, click.BadParameter) and not isinstance(error, click.MissingParameter)
    text = (error.message if own else error.format_message()).rstrip(".")
    return text[:1].lower() + text[1:]


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"`{context.command_path} --help` tells more" if context else ""
