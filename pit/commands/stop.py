"""`pit stop`: stop jobs."""

import click

from pit.args.options import example, flatten, jobs_argument, json_option
from pit.exit_codes import Exit
from pit.head.client import ONES_OWN
from pit.head.latest import find_numbers
from pit.login.session import open_head
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit_protocol.answers.jobs import JobRecord
from pit_protocol.problem import Problem


@click.command("stop", epilog=example("pit stop 187 190-199"))
@jobs_argument()
@json_option
def command(numbers: tuple[range, ...], as_json: bool) -> Exit:
    """Stop jobs; a range such as 190-199 names several, and `last` is your latest job.

    Processes get SIGTERM, and SIGKILL after a grace period. The exit code is 1 if one of the jobs
    could not be stopped; the others are stopped anyway.
    """
    code = Exit.DONE
    with open_head() as head:
        for number in find_numbers(head, flatten(numbers)):
            try:
                record = head.stop(number)
            except Problem as problem:
                if problem.status not in ONES_OWN:
                    raise
                output.note(problem.message, problem.hint)
                code = Exit.PROBLEM
                continue
            _show(record, as_json)
    return code


def _show(record: JobRecord, as_json: bool) -> None:
    if as_json:
        output.show_json(record)
        return
    state = "stopped" if record.state == "ended" else sanitize(record.state)
    output.show(f"job {record.name} is {state}")
