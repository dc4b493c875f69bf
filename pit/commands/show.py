"""`pit show`: records and lists."""

from collections.abc import Callable, Sequence

import click

from pit.args.completers import ENTITY, LAST_JOB, completer
from pit.args.entities import COLLECTIONS, check_name
from pit.args.options import LAST, example, job_number, json_option
from pit.args.usage_problem import UsageProblem
from pit.connect.connection import find_connection
from pit.exit_codes import Exit
from pit.head.client import Head, Params
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.ui import output
from pit.ui.documents import ConnectFile
from pit.views import aliases, audit, groups, jobs, nodes, queue, sites, storage, tokens, users
from pit.views.job.columns import JobColumn, parse_columns
from pit_protocol.arrays.numbers import job_name

Parse = Callable[[Sequence[str]], Params]

LISTS: dict[str, Callable[[Head, bool], None]] = {
    "me": users.show_me,
    "users": users.show_users,
    "groups": groups.show_groups,
    "nodes": nodes.show_nodes,
    "sites": sites.show_sites,
    "aliases": aliases.show_aliases,
    "queue": queue.show_queue,
    "trash": storage.show_trash,
    "usage": storage.show_usage,
}
FILTERED: dict[str, tuple[Parse, Callable[[Head, Params, bool], None]]] = {
    "jobs": (jobs.parse_filters, jobs.show_jobs),
    "tokens": (tokens.parse_filters, tokens.show_tokens),
    "audit": (audit.parse_filters, audit.show_audit),
}
RECORDS: dict[str, Callable[[Head, str, bool], None]] = {
    "user": users.show_user,
    "group": groups.show_group,
    "node": nodes.show_node,
    "site": sites.show_site,
    "alias": aliases.show_alias,
    "job": jobs.show_job,
}
CHOICES = (*LISTS, *FILTERED, "connect", *(f"{kind}:NAME" for kind in RECORDS))


@click.command("show", epilog=example("pit show jobs user=jill since=2026-04 title=test asc=date limit=20"))
@click.argument("what", required=False, default=LAST, shell_complete=completer(LAST_JOB, ENTITY))
@click.argument("filters", nargs=-1, metavar="[FILTER=VALUE]...")
@click.option("--events", is_flag=True, help="Also show each change of a job's state, with time and reason.")
@click.option("--processes", is_flag=True, help="Give each process of a job its own row.")
@click.option(
    "--columns",
    metavar="NAME,…",
    type=parse_columns,
    help="Show these columns of jobs; `--columns help` lists them.",
)
@json_option
def command(
    what: str,
    filters: tuple[str, ...],
    events: bool,
    processes: bool,
    columns: list[JobColumn] | None,
    as_json: bool,
) -> Exit:
    """Show a list or one item.

    Lists are me, users, groups, nodes, sites, aliases, jobs, queue, tokens, audit, trash and usage. One item
    is user:NAME, group:NAME, node:NAME, site:NAME, alias:NAME, or job:N (or just N). Without WHAT, it
    is your latest job. Processes of a job that are alike share a row. `pit show connect` prints the
    .pitconnect.txt to hand out: the head's URL and certificate.

    Jobs can be filtered by user, node, state (WAI, waiting, failed …), title (a part of it), since
    and till (today, 14:00, 2026-04-01, or 3d ago), ordered by asc or desc (date, title, user,
    state), and cut by limit and offset; the audit by actor, object and limit; tokens, for admins,
    by user.
    """
    if (events or processes) and what in CHOICES:
        raise click.UsageError(f"--events and --processes are for one job, not for {what}")
    if columns and what != "jobs":
        raise click.UsageError(f"--columns is for jobs, not for {what}")
    if filters and what not in FILTERED:
        raise click.UsageError(f"{what} takes no filter; only {', '.join(FILTERED)} do")
    if what == "connect":
        _show_connect(as_json)
    elif what in LISTS:
        with open_head() as head:
            LISTS[what](head, as_json)
    elif what in FILTERED:
        parse, show = FILTERED[what]
        params = parse(filters)
        with open_head() as head:
            if columns:
                jobs.show_jobs(head, params, as_json, columns)
            else:
                show(head, params, as_json)
    else:
        _show_record(what, as_json, events=events, processes=processes)
    return Exit.DONE


def _show_record(what: str, as_json: bool, **details: bool) -> None:
    is_job = what[:1].isdecimal() or what == LAST
    kind, _, name = f"job:{what}".partition(":") if is_job else what.partition(":")
    if kind not in RECORDS:
        raise _unknown(what, kind, name)
    if kind == "job":
        number = job_number(name)
        with open_head() as head:
            jobs.show_job(head, job_name(find_number(head, number, tell=False)), as_json, **details)
        return
    if any(details.values()):
        raise click.UsageError(f"--events and --processes are for one job, not for {what}")
    check_name(kind, name)
    with open_head() as head:
        RECORDS[kind](head, name, as_json)


def _unknown(what: str, kind: str, name: str) -> UsageProblem:
    one = next((singular for singular, plural in COLLECTIONS.items() if plural == kind), "")
    message = f"there is no {what!r} to show"
    if one and name:
        return UsageProblem(message, f"write {one}:{name} for one, {kind} for all")
    return UsageProblem(message, f"write {', '.join(CHOICES)}")


def _show_connect(as_json: bool) -> None:
    address = find_connection().address
    if as_json:
        output.show_json(ConnectFile(address.url, address.certificates, address.pins))
    else:
        output.show(address.text.rstrip())
