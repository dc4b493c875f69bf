"""Make a machine a node by the admin's own ssh: join, start the worker, wait until it is online.

ssh decides whom it trusts and how it logs in, by the admin's configuration, keys and agent. The script goes
in the command; the join code goes to its stdin, because every user of a machine can list arguments.
"""

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable

from pit.head.client import Head
from pit.head.retry import HeadRetry
from pit.jobs.log_follow import HOLD_S
from pit.ui import output
from pit.ui.sanitize import sanitize
from pit_protocol import __version__
from pit_protocol.problem import Problem
from pit_protocol.states import NodeState

ONLINE_S = 60.0
UNREACHED = 255  # ssh's own exit code for its errors
NO_PYTHON = 3  # the script's
SCRIPT = f"""\
set -eu
read -r PIT_WORKER_JOIN_CODE
read -r url
read -r pin || :
export PIT_WORKER_JOIN_CODE
venv=$HOME/.local/share/pit-worker/venv
worker=$(command -v pit-worker || echo "$venv/bin/pit-worker")
if [ ! -x "$worker" ]; then
    check='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
    python3 -c "$check" 2>/dev/null || exit {NO_PYTHON}
    echo "installing pit-worker in $venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'gitpit[worker]=={__version__}'
fi
"$worker" join --force "$url" $pin
unset PIT_WORKER_JOIN_CODE
if [ -d /run/systemd/system ] && [ "$(id -u)" = 0 ]; then
    "$worker" install
elif [ -d /run/systemd/system ] && systemctl --user show-environment >/dev/null 2>&1; then
    "$worker" install --user
else
    "$worker" install --background
fi
"$worker" doctor || :
"""


def set_up(target: str, join_code: str, url: str, pin: str, *, tells_stderr: bool) -> None:
    """Run the script on the machine; what it says is shown. Raises a Problem."""
    ssh = shutil.which("ssh")
    if ssh is None:
        raise Problem("no_ssh", "the program ssh is missing", "install OpenSSH's client")
    if target.startswith("-"):
        raise Problem("bad_target", f"{target!r} is not a machine", "write --ssh user@host")
    # An unknown host key is refused, not asked about: the join code must not go to just any machine.
    command = [ssh, "-T", "-o", "StrictHostKeyChecking=yes", "--", target, f"sh -c {shlex.quote(SCRIPT)}"]
    secrets = f"{join_code}\n{url}\n{pin}\n"
    done = subprocess.run(
        command, input=secrets, text=True, stdout=sys.stderr if tells_stderr else None, check=False
    )
    if done.returncode == 0:
        return
    name = sanitize(target)
    if done.returncode == UNREACHED:
        hint = f"`ssh {name}` shows what is wrong; its key must be in known_hosts"
        raise Problem("ssh_failed", f"ssh does not reach {name}", hint)
    if done.returncode == NO_PYTHON:
        hint = "install Python with its venv module, or pit-worker itself"
        raise Problem("no_python", f"{name} has no pit-worker, and no Python 3.11 to install it with", hint)
    raise Problem("ssh_failed", f"the setup on {name} ended with exit code {done.returncode}", "see above")


def await_online(head: Head, name: str, clock: Callable[[], float] = time.monotonic) -> None:
    """Wait until the head hears the node's worker; raises a Problem."""
    retry, deadline = HeadRetry(output.note, met=True), clock() + ONLINE_S
    while True:
        seen = retry.call(head.status).revision
        if retry.call(lambda: head.node(name)).state == NodeState.ONLINE:
            return
        if clock() > deadline:
            hint = "its log (`worker.log` beside the spool, or journalctl) says why; can it reach the head?"
            raise Problem("not_online", f"node {name} does not come online", hint)
        retry.call(lambda seen=seen: head.status(seen, min(HOLD_S, 5.0)))  # type: ignore[misc]
