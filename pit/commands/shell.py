"""`pit shell`: a shell inside a running process of a job."""

import click

from pit.args.options import example, job_argument
from pit.args.process import process_option
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.sessions import terminal
from pit.sessions.command import run


@click.command("shell", epilog=example("pit shell 190 --process 1"))
@job_argument(is_optional=True)
@process_option
def command(number: int, process: str | None) -> int:
    """Open a shell inside a running process of job NUMBER, or of your latest job.

    It is bash where there is one, with the environment, directory, user, GPUs and limits of the process.
    The shell ends with the job; the job does not end with the shell.
    """
    with open_head() as head:
        number = find_number(head, number)
        return run(head.connection, number, process, (), has_terminal=terminal.is_terminal())
