"""`pit forward`: ports of a running process, on this machine."""

import re
from contextlib import ExitStack

import click

from pit.args.options import example, job_argument, json_option
from pit.args.process import process_option
from pit.args.usage_problem import UsageProblem
from pit.head.client import Head
from pit.head.latest import find_number
from pit.login.session import open_head
from pit.sessions.forward import forward
from pit.sessions.listeners import Listener, listen
from pit.ui import output
from pit_protocol.arrays.numbers import job_name
from pit_protocol.states import ProcessState

HIGHEST_PORT = 65535


def ports(text: str) -> tuple[int, int]:
    """The local port and that of the process, from `8888` or `8080:80`."""
    match = re.fullmatch(r"(?:([0-9]{1,5}):)?([0-9]{1,5})", text)
    port = int(match[2]) if match else 0
    local = int(match[1]) if match and match[1] else port
    if not 0 < port <= HIGHEST_PORT or local > HIGHEST_PORT:
        raise UsageProblem(f"{text!r} is not a port", "write 8888, or 8080:80 for LOCAL:REMOTE")
    return local, port


@click.command("forward", epilog=example("pit forward 190 8888", "pit forward 190 8080:80 0:6006 --open"))
@process_option
@click.option("--open", "opens", is_flag=True, help="Open the first of them in the browser.")
@json_option
@job_argument()
@click.argument("pairs", nargs=-1, type=ports, required=True, metavar="[LOCAL:]PORT...")
def command(
    number: int, process: str | None, pairs: tuple[tuple[int, int], ...], opens: bool, as_json: bool
) -> None:
    """Reach ports of a running process of job NUMBER at 127.0.0.1 of this machine, until Ctrl-C.

    The local port is the same, or LOCAL; 0 is any free one. It ends with the process. When the head is
    away for a while, open connections break, and new ones wait until it is back.
    """
    with open_head() as head, ExitStack() as stack:
        number = find_number(head, number)
        name, rank = _find_process(head, number, process)
        listeners = []
        for local, port in pairs:
            listeners.append(listen(local, port))
            stack.callback(listeners[-1].sock.close)

        def on_ready() -> None:
            for listener in listeners:
                _show(listener, number, rank, as_json=as_json)
            if opens:
                _open_browser(listeners[0].url)

        forward(head.connection, number, name, listeners, on_ready)


def _find_process(head: Head, number: int, wanted: str | None) -> tuple[str | None, int | None]:
    """The name and rank of the process to connect to, so that it stays the same one."""
    record = head.job(number)
    for process in sorted(record.processes, key=lambda each: each.rank):
        names = (str(process.rank), f"{process.group}.{process.index}")
        is_running = process.attempt == record.attempt and process.state == ProcessState.RUNNING
        if is_running and (wanted is None or wanted in names):
            return names[0], process.rank
    return wanted, None  # the head says why there is none


def _show(listener: Listener, number: int, rank: int | None, *, as_json: bool) -> None:
    if as_json:
        output.show_json(
            {
                "url": listener.url,
                "local_port": listener.local_port,
                "job": job_name(number),
                "process": rank,
                "port": listener.port,
            }
        )
    else:
        output.show(f"{listener.url} → job {job_name(number)}, worker {rank}, port {listener.port}")


def _open_browser(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        output.note("there is no browser here", f"open {url} in yours")
