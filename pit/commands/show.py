"""`pit show`: records and lists."""

import time
from collections.abc import Sequence

import click

from pit import job_view, output, render
from pit.exits import Exit
from pit.head import Head, open_head
from pit.options import example, job_number, json_option
from pit.tables import Section
from pit.times import parse_time
from pit_protocol.states import JobState, Outcome

FILTERS = ("user", "state", "outcome", "title", "since", "till", "asc", "desc", "limit", "offset")
ORDERS = ("date", "title", "user", "state")


@click.command(
    "show", epilog=example("pit show jobs user=jill since=2026-04 title='%test%' asc=date limit=20")
)
@click.argument("what")
@click.argument("filters", nargs=-1, metavar="[FILTER=VALUE]...")
@json_option
def command(what: str, filters: tuple[str, ...], as_json: bool) -> Exit:
    """Show WHAT: me, jobs, nodes, job:N (or only N) or node:NAME.

    Jobs can be filtered by user, state (also an outcome: failed), title (% stands for anything), since
    and till (2026-04, or 3d ago), ordered by asc or desc (date, title, user, state), and cut by limit
    and offset.
    """
    kind, _, name = what.partition(":")
    if filters and what != "jobs":
        raise click.UsageError(f"{what} takes no filter; only jobs do")
    with open_head() as head:
        if what == "me":
            _show_me(head, as_json)
        elif what == "jobs":
            _show_jobs(head, parse_filters(filters, time.time()), as_json)
        elif what == "nodes":
            _show_nodes(head, as_json)
        elif kind == "node" and name:
            _show_node(head, name, as_json)
        elif kind == "job" or what[:1].isdecimal():
            _show_job(head, job_number(what), as_json)
        else:
            raise click.UsageError(
                f"there is no {what!r} to show; there are me, jobs, nodes, job:N and node:NAME"
            )
    return Exit.DONE


def parse_filters(words: Sequence[str], now: float) -> dict[str, str | float]:
    """The head's parameters for `user=jill since=2026-04`."""
    filters: dict[str, str | float] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in FILTERS:
            raise click.UsageError(f"{word!r} is no filter; write {', '.join(FILTERS)}, each with =VALUE")
        if key == "state":
            key = _state_key(value)
        filters[key] = _filter_value(key, value, now)
    return filters


def _state_key(value: str) -> str:
    if value in list(JobState):
        return "state"
    if value in list(Outcome):
        return "outcome"
    raise click.UsageError(f"there is no state {value!r}; there are {', '.join((*JobState, *Outcome))}")


def _filter_value(key: str, value: str, now: float) -> str | float:
    if key in ("since", "till"):
        try:
            return parse_time(value, now)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if key in ("asc", "desc") and value not in ORDERS:
        raise click.UsageError(f"jobs are ordered by {', '.join(ORDERS)}, not by {value!r}")
    if key in ("limit", "offset") and not (value.isascii() and value.isdecimal()):
        raise click.UsageError(f"{key} is a number, not {value!r}")
    return value


def _show_me(head: Head, as_json: bool) -> None:
    me = head.me()
    if as_json:
        output.show_json(me)
    else:
        output.show(render.me_text(me))


def _show_jobs(head: Head, filters: dict[str, str | float], as_json: bool) -> None:
    answer = head.jobs(filters)
    if as_json:
        output.show_json(answer)
        return
    rows = [render.job_row(job, time.time()) for job in answer["jobs"]]
    more = max(0, answer["total"] - int(filters.get("offset", 0)) - len(rows))
    output.show_table(render.JOB_COLUMNS, [Section("", rows, more)])


def _show_nodes(head: Head, as_json: bool) -> None:
    answer = head.nodes()
    if as_json:
        output.show_json(answer)
    else:
        output.show_table(
            render.NODE_COLUMNS, [Section("", [render.node_row(node) for node in answer["nodes"]])]
        )


def _show_node(head: Head, name: str, as_json: bool) -> None:
    node = head.node(name)
    if as_json:
        output.show_json(node)
    else:
        output.show(render.node_text(node))


def _show_job(head: Head, number: int, as_json: bool) -> None:
    job, now = head.job(number), time.time()
    if as_json:
        output.show_json(job)
        return
    output.show(job_view.job_text(job, now))
    if job["processes"]:
        output.show("")
        output.show_table(job_view.PROCESS_COLUMNS, [job_view.process_section(job, now)])
    if job["events"]:
        output.show("")
        output.show_table(job_view.EVENT_COLUMNS, [job_view.event_section(job)])
