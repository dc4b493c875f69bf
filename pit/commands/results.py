"""`pit results`: what the elements of an array, or a job, have found."""

import click

from pit.args.options import example, job_argument, json_option
from pit.exit_codes import Exit
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.ui import output
from pit.views import results
from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem


@click.command("results", epilog=example("pit results 190 --sort loss", "pit results 190 --csv > sweep.csv"))
@job_argument(is_optional=True)
@click.option("--sort", "name", metavar="NAME", help="Sort by this column, the smallest first.")
@click.option("-r", "--reverse", is_flag=True, help="Sort the largest first.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@json_option
def command(number: int, name: str | None, reverse: bool, as_csv: bool, as_json: bool) -> Exit:
    """Show the results of the array NUMBER, or of your latest job, as a table.

    Each element that has begun has a row: its index, its state, its sweep values, and what it wrote
    to $RESULT_FILE, as a JSON object or as lines NAME=VALUE. --sort marks the first row with *.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    with open_head() as head:
        number = find_number(head, number, tell=not (as_csv or as_json))
        found = head.elements(number)
    elements, names = found.elements, results.list_names(found.elements)
    if name is not None and not results.has_name(elements, name):
        known = (
            f"the columns are {', '.join(names)}" if names else "nothing has been written to $RESULT_FILE yet"
        )
        raise Problem("no_such_result", f"job {job_name(number)} has no result {name!r}", known)
    if name is not None or reverse:
        elements = results.sort_elements(elements, name or "", reverse=reverse) if name else elements[::-1]
    if as_json:
        output.show_json(results.sorted_list(found, elements))
    elif as_csv:
        output.show(results.csv_text(elements, names).rstrip("\n"))
    else:
        output.show_table(results.columns(names), [results.section(found.number, elements, names, name)])
    return Exit.DONE
