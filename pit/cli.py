"""The command `pit`: find the subcommand, and turn errors into a message and an exit code."""

import importlib
import os
import signal
import sys
import threading
from contextlib import redirect_stderr, suppress
from io import StringIO
from typing import Any, NoReturn

import click

from pit.exit_codes import Exit
from pit_protocol import __version__
from pit_protocol.problem import Problem

SECTIONS = {
    "Jobs": {
        "run": "Submit the project around the current directory as a job.",
        "rerun": "Run an old job again, with its code or with the current code.",
        "log": "Print a job's log and follow it.",
        "exec": "Run a command inside a running job.",
        "shell": "Open a shell inside a running job.",
        "forward": "Reach ports of a running job on this machine.",
        "status": "Show running, waiting and done jobs.",
        "why": "Explain why a job waits, or how it ended.",
        "results": "Show the results of an array, or of a job, as a table.",
        "stop": "Stop jobs.",
        "wait": "Wait until jobs have ended.",
    },
    "Code": {
        "diff": "Show a job's uncommitted changes, or how two jobs differ.",
        "checkout": "Check out the exact code of a job.",
    },
    "Files": {
        "ls": "List files in a data directory.",
        "cat": "Print a file in a data directory.",
        "pull": "Copy files from a data directory.",
        "push": "Copy files to a data directory.",
        "sync": "Copy new and changed files to a data directory.",
        "restore": "Restore jobs, files and more from the trash.",
        "download": "Download a job's directory as a .tar.gz archive.",
        "mount": "Mount a data directory as a local file system.",
    },
    "Cluster": {
        "show": "Show jobs, nodes, users, groups and more.",
        "add": "Add a user, group, node or alias.",
        "set": "Change properties of a user, group, node, alias or job.",
        "get": "Print one property of a user, group, node, alias or job.",
        "remove": "Remove a user, group, node, alias, job, token or files.",
        "add-group": "Add a user, job, node or resource to a group.",
        "remove-group": "Remove a user, job, node or resource from a group.",
        "up": "Start a head and a worker on this machine.",
        "down": "Stop the head and the worker of `pit up`.",
    },
    "Account": {
        "connect": "Connect to a head and log in.",
        "login": "Log in to the head, or register.",
        "logout": "Revoke and delete this machine's token.",
        "trust": "Trust the head that a project names.",
        "profile": "Manage several heads by name.",
        "completion": "Print the script that lets your shell complete words.",
        "mcp": "Let agents use the head (Model Context Protocol).",
        "help": "Show the help of a command.",
    },
}
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}
COMPLETION = "_PIT_COMPLETE"  # set by a shell that completes words
ALIASES = {"put": "run", "rm": "remove", "cp": "pull"}


class Pit(click.Group):
    """Import a command's module only when it is called, so that pit starts quickly."""

    debug = False

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"pit.commands.{name.replace('-', '_')}").command
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if args[0].startswith("-"):
                raise
            from pit.args.unknown_words import unknown_command

            raise unknown_command(args, [*COMMANDS, *ALIASES]) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        names = {original: f"{original}, {alias}" for alias, original in ALIASES.items()}
        width = max(len(names.get(name, name)) for name in COMMANDS)
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(names.get(name, name).ljust(width), text) for name, text in commands.items()]
                )

    def _complete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Print the words that complete a line; silent whatever happens."""
        from pit import completion

        completion.register()
        with suppress(Exception), redirect_stderr(StringIO()):
            kwargs.update(prog_name="pit", standalone_mode=False)
            super().main(*args, **kwargs)
        sys.exit(Exit.DONE)

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run the command and exit with an `Exit` code."""
        if COMPLETION in os.environ:
            self._complete(*args, **kwargs)
        self.debug = False
        stdout = sys.stdout
        kwargs.update(prog_name="pit", standalone_mode=False)
        try:
            code = super().main(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            code = _leave_pipe()
        except SystemExit:
            if sys.stdout is stdout:  # click replaces it if the pipe is broken
                raise
            code = _leave_pipe()
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
    """Run the current git project on a cluster, and follow its jobs."""
    if isinstance(ctx.command, Pit):
        ctx.command.debug = debug


def _exit_on_signal(number: int, _frame: object) -> NoReturn:
    # Like Ctrl-C: unfinished work is cleaned up on the way out.
    sys.exit(128 + number)


def main() -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # not ignored, as it is under nohup
            signal.signal(number, _exit_on_signal)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a title must not cause a traceback in an ASCII locale
            stream.reconfigure(errors="backslashreplace")
    try:
        pit.main()
    except SystemExit as error:
        if error.code and threading.active_count() > 1:
            _exit_at_once(int(error.code))
        raise


def _exit_at_once(code: int) -> NoReturn:
    """Exit without waiting for the threads of an interrupted transfer."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _leave_pipe() -> Exit:
    """The reader of stdout, such as `head -1`, has seen enough: that is no error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it at the end
    return Exit.DONE


def _explain(error: Exception) -> Exit:
    from pit.ui.output import note

    if isinstance(error, Problem):
        note(error.message, error.hint)
        return Exit.PROBLEM
    if isinstance(error, click.Abort):
        return Exit.INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Exit.USAGE
    if isinstance(error, click.ClickException):
        from pit.args.usage_errors import explain

        note(*explain(error))
        return Exit.USAGE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        note(f"{where}{(error.strerror or str(error)).lower()}")
        return Exit.PROBLEM
    note(f"internal error: {type(error).__name__}: {error}", "`pit --debug …` shows the traceback")
    return Exit.PROBLEM
