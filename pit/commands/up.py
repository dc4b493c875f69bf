"""`pit up`: a head and a worker on this machine, started once and found again."""

import importlib.util
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click

from pit.args.options import example, json_option
from pit.connect.connect_files import find_project_path, home_path
from pit.connect.connection import Connection
from pit.connect.token_store import is_token
from pit.exit_codes import Exit
from pit.head.client import Head
from pit.head.http_session import Unreachable
from pit.local import local_cluster
from pit.local.daemon import Daemon
from pit.local.local_cluster import Names, State
from pit.local.platform_check import require_linux
from pit.text_files import read_text
from pit.ui import output
from pit.ui.documents import ClusterUp
from pit.ui.sanitize import sanitize
from pit.views.nodes import node_row
from pit_protocol.answers.nodes import Node
from pit_protocol.problem import Problem
from pit_protocol.states import NodeState

NEEDED = ("flask", "sqlalchemy", "pit_server", "pit_worker")
SETUP_S = 120.0
COME_UP_S = 30.0
ORPHANS_S = 20.0
GRACE_S = 15.0
GLANCE_S = 0.05  # between two checks of something that starts


@click.command("up", epilog=example("pit up && pit run \"First light\" -d 'hostname' -l"))
@click.option("--port", type=click.IntRange(1, 65535), help="The head's port; chosen once if not given.")
@json_option
def command(port: int | None, as_json: bool) -> Exit:
    """Start a head and a worker on this machine, and use them where no other head is named.

    Does nothing if they are already running. All state is in $PIT_HOME, or else in
    ~/.local/share/pit.
    """
    require_linux("up")
    _check_installed()
    state = State.find()
    with state.locked():
        names = _choose_names(state, port)
        lines = [_bring_up_head(state, names)]
        node, line = _bring_up_worker(state, names)
    if as_json:
        output.show_json(ClusterUp(names.url, node))
        return Exit.DONE
    output.show("\n".join([*lines, line, *_next_steps(state)]))
    return Exit.DONE


def _check_installed() -> None:
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise Problem("not_installed", "pit up needs the head and the worker: pip install 'gitpit[all]'")


def _choose_names(state: State, port: int | None) -> Names:
    """The head's address; while it runs that is settled, else its last port is tried first."""
    known = local_cluster.get_names(state)
    if state.head.is_alive():
        if known is None or port not in (None, known.port):
            where = f" at {known.url}" if known else ""
            raise Problem(
                "already_up", f"the head is up already{where}", "`pit down`, then `pit up` with the new port"
            )
        return known
    _await_orphans(state.head)
    if port is not None and not local_cluster.is_free(port):
        raise Problem(
            "port_taken",
            f"port {port} is in use by another program",
            "`pit up` without --port finds a free one",
        )
    kept = known.port if known and local_cluster.is_free(known.port) else None
    return local_cluster.keep_names(state, port or kept or local_cluster.free_port())


def _await_orphans(head: Daemon) -> None:
    """Wait until a killed head's processes are gone: two heads must not share one database."""
    deadline = time.monotonic() + ORPHANS_S
    while orphans := head.list_orphans():
        if time.monotonic() > deadline:
            pids = " ".join(map(str, orphans))
            raise Problem(
                "orphans", f"processes of the last head are still there: {pids}", f"`kill {pids}` ends them"
            )
        time.sleep(GLANCE_S)


def _bring_up_head(state: State, names: Names) -> str:
    head = state.head
    if head.is_alive():
        if not all(_has_token(path) for path in (state.user_token, state.node_token)):
            _set_up(state, names)
        _await(head, 0, lambda: _answers(names))
        return f"the head is already up at {names.url}"
    said = head.log_size()
    head.start(local_cluster.head_command(state, names), state.root, local_cluster.environment())
    _await(head, said, lambda: _answers(names))
    return f"the head is up at {names.url}"


def _bring_up_worker(state: State, names: Names) -> tuple[Node, str]:
    worker = state.worker
    if worker.is_alive() and not worker.has_argument(names.url):
        worker.stop(GRACE_S)  # it uses the head's old port; its processes keep running
    was_alive, said = worker.is_alive(), worker.log_size()
    token = (read_text(state.user_token) or "").strip()
    connection = Connection(names.url, state.connect_file, token, state.user_token, is_embedded=True)
    with Head(connection) as head:
        # The node of a killed worker still counts as online: only a new epoch shows the new worker.
        old = 0 if was_alive else head.node(names.node).epoch
        if not was_alive:
            worker.start(local_cluster.worker_command(state, names), state.root, local_cluster.environment())
        _await(worker, said, lambda: _is_there(head.node(names.node), old))
        node = head.node(names.node)
    already = "already " if was_alive else ""
    *_, resources = node_row(node)
    gpus = resources if node.resources else "no GPUs"
    memory = f"{node.memory_mib / 1024:.0f} GiB"
    cores = "1 core" if node.cores == 1 else f"{node.cores} cores"
    offers = f"{cores}, {memory}, {gpus}, slots: {node.free_slots} of {node.slots} free"
    line = f"the worker is {already}up as node {names.node} ({offers})"
    return node, f"{line}\n{takes_no_work(node)}" if node.trouble else line


def takes_no_work(node: Node) -> str:
    return f"but it takes no jobs: {sanitize(node.trouble)}"


def _is_there(node: Node, old_epoch: int) -> bool:
    return node.state == NodeState.ONLINE and node.epoch > old_epoch


def _has_token(path: Path) -> bool:
    return is_token((read_text(path) or "").strip())


def _set_up(state: State, names: Names) -> None:
    try:
        done = subprocess.run(
            local_cluster.setup_command(state, names),
            cwd=state.root,
            env=local_cluster.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SETUP_S,
        )
    except subprocess.TimeoutExpired:
        raise Problem("setup", f"the head's setup took longer than {SETUP_S:.0f} s", "try again") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise Problem("setup", f"the head could not be set up in {state.head_home}", "\n".join(said[-10:]))


def _answers(names: Names) -> bool:
    with Head(Connection(names.url)) as head:
        return bool(head.about().cluster)


def _await(daemon: Daemon, log_size: int, is_up: Callable[[], bool]) -> None:
    """Wait until it is up; `log_size` is the size of its log before it was started."""
    deadline = time.monotonic() + COME_UP_S
    while time.monotonic() < deadline:
        if not daemon.is_alive():
            raise Problem("not_up", f"the {daemon.name} ended at once", _log_end(daemon, log_size))
        try:
            if is_up():
                return
        except Unreachable:
            pass
        time.sleep(GLANCE_S)
    raise Problem(
        "not_up", f"the {daemon.name} is not up after {COME_UP_S:.0f} s", _log_end(daemon, log_size)
    )


def _log_end(daemon: Daemon, log_size: int) -> str:
    words = daemon.log_tail(log_size)
    return f"{daemon.log_file} ends with\n{words}" if words else f"{daemon.log_file} is empty"


def _next_steps(state: State) -> list[str]:
    lines = [
        f"data: {state.root}",
        "`pit run \"First light\" -d 'hostname' -l` in a git project runs a job",
        "`pit status` shows jobs, `pit down` stops head and worker",
    ]
    other = find_project_path(Path.cwd()) or (home_path() if home_path().is_file() else None)
    if other:
        lines.append(f"but here {other} names the head that is used")
    return lines
