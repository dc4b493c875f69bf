"""`pit wait`: block until jobs have ended."""

import click

from pit.args.options import example, flatten, job_numbers, json_option
from pit.exit_codes import Exit
from pit.head.client import ONES_OWN
from pit.head.retry import HeadRetry
from pit.jobs.log_follow import note_still_running, wait_for_end
from pit.login.session import open_head
from pit.ui import output, render
from pit_protocol.problem import Problem


@click.command("wait", epilog=example("pit wait 190-199 && pit download 199"))
@click.argument("numbers", nargs=-1, required=True, type=job_numbers, metavar="NUMBER...")
@json_option
def command(numbers: tuple[range, ...], as_json: bool) -> Exit:
    """Wait until the jobs NUMBER have ended, and print how.

    The exit code is 0 if all succeeded, 3 if one did not, 1 if one cannot be waited for.
    Ctrl-C leaves the jobs running (exit code 130).
    """
    code = Exit.DONE
    with open_head() as head:
        retry = HeadRetry(output.note)
        for number in flatten(numbers):
            try:
                record = wait_for_end(head, number, retry)
            except Problem as problem:
                if problem.status not in ONES_OWN:
                    raise
                output.note(problem.message, problem.hint)
                code = Exit.PROBLEM
                continue
            except KeyboardInterrupt:
                return note_still_running(number)
            if as_json:
                output.show_json(record)
            else:
                output.show(render.ending(record))
            if record.outcome != "succeeded" and code is Exit.DONE:
                code = Exit.JOB_FAILED
    return code
