"""`pit wait`: block until jobs have ended."""

import click

from pit import output, render
from pit.exits import Exit
from pit.following import say_goes_on, wait_for_end
from pit.head import ONES_OWN
from pit.opening import open_head
from pit.options import example, flatten, job_numbers, json_option
from pit.patience import Patience
from pit_protocol.problem import Problem


@click.command("wait", epilog=example("pit wait 190-199 && pit download 199"))
@click.argument("numbers", nargs=-1, required=True, type=job_numbers, metavar="NUMBER...")
@json_option
def command(numbers: tuple[range, ...], as_json: bool) -> Exit:
    """Wait until the jobs NUMBER have ended, and say how.

    The exit code is 0 if all succeeded, 3 if one did not, 1 if one cannot be waited for.
    Ctrl-C leaves the jobs running (exit code 130).
    """
    code = Exit.DONE
    with open_head() as head:
        patience = Patience(output.tell)
        for number in flatten(numbers):
            try:
                record = wait_for_end(head, number, patience)
            except Problem as problem:
                if problem.status not in ONES_OWN:
                    raise
                output.tell(problem.message, problem.hint)
                code = Exit.PROBLEM
                continue
            except KeyboardInterrupt:
                return say_goes_on(number)
            if as_json:
                output.show_json(record)
            else:
                output.show(render.ending(record))
            if record["outcome"] != "succeeded" and code is Exit.DONE:
                code = Exit.JOB_FAILED
    return code
