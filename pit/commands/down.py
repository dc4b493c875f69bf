"""`pit down`: stop what `pit up` started, and nothing else."""

import click

from pit.args.options import example, json_option
from pit.connect.connection import Connection
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.http_session import Unreachable
from pit.head.retry import HeadRetry
from pit.jobs.log_follow import wait_for_end
from pit.local.local_cluster import State, get_names
from pit.local.platform_check import require_linux
from pit.text_files import read_text
from pit.ui import output
from pit.ui.documents import ClusterDown
from pit_protocol.problem import Problem

GRACE_S = 15.0
NAMED_JOBS = 10
UNENDED = ("preparing", "waiting", "starting", "running", "stopping")


@click.command("down", epilog=example("pit down --leave"))
@click.option("--leave", is_flag=True, help="Leave running jobs running; the next `pit up` takes them over.")
@click.option("--stop", "stop_jobs", is_flag=True, help="Stop all jobs first, including waiting ones.")
@json_option
def command(leave: bool, stop_jobs: bool, as_json: bool) -> Exit:
    """Stop the head and the worker of `pit up`.

    Refuses while jobs are running, unless --leave or --stop is given. Waiting jobs stay in the
    queue.
    """
    if leave and stop_jobs:
        raise click.UsageError("--leave and --stop exclude each other")
    require_linux("down")
    state = State.find()
    with state.locked():
        jobs: list[int] = []
        if state.head.is_alive() and not leave:
            jobs = _settle_jobs(state, stop_jobs)
        stopped = [daemon.name for daemon in (state.worker, state.head) if daemon.stop(GRACE_S)]
    if as_json:
        output.show_json(ClusterDown(stopped, jobs))
        return Exit.DONE
    for number in jobs:
        output.show(f"stopped job {number}")
    output.show(f"stopped the {' and the '.join(stopped)}" if stopped else "nothing was up")
    return Exit.DONE


def _settle_jobs(state: State, stop_jobs: bool) -> list[int]:
    """The numbers of the jobs that were stopped; raises a Problem if jobs run and may not be stopped."""
    try:
        with _open(state) as head:
            if stop_jobs:
                return _stop_all(head)
            running = head.status().running
    except Unreachable as problem:
        raise Problem(
            "jobs_unknown",
            f"{problem.message}; it is not known whether jobs run",
            "`pit down --leave` stops head and worker all the same, and leaves running jobs alone",
        ) from problem
    if running:
        names = ", ".join(f"{job.number} ({job.title})" for job in running[:NAMED_JOBS])
        more = f" and {len(running) - NAMED_JOBS:,} more" if len(running) > NAMED_JOBS else ""
        count = "1 job still runs" if len(running) == 1 else f"{len(running):,} jobs still run"
        raise Problem(
            "jobs_running",
            f"{count}: {names}{more}",
            "`pit down --leave` leaves them running, `pit down --stop` stops them first",
        )
    return []


def _stop_all(head: Head) -> list[int]:
    # Waiting jobs first: the end of a running job would start them.
    jobs = [job for name in UNENDED for job in head.jobs({"state": name, "limit": 1000}).jobs]
    for job in jobs:
        try:
            head.stop(job.number)
        except Problem as problem:
            if problem.code != "already_ended":
                raise
    retry = HeadRetry(output.note)
    return [wait_for_end(head, job.number, retry).number for job in jobs]


def _open(state: State) -> Head:
    names = get_names(state)
    if names is None:
        raise Problem("no_head", f"{state.connect_file} is gone", "`pit down --leave` stops head and worker")
    token = (read_text(state.user_token) or "").strip()
    return Head(Connection(names.url, state.connect_file, token, state.user_token, is_embedded=True))
