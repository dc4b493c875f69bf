"""Runs a command inside a process of a job: in its namespaces, its cgroup, as its user.

A program of its own, which the worker starts with `python -I -S`: everything is loaded before it leaves the
worker's world, and nothing of the job's environment is used before it is the job's user.
usage: enter.py DESCRIPTOR DIRECTORY…    reads from there what to do, as JSON; imports from these directories
"""

import fcntl
import json
import os
import signal
import sys
import termios
from contextlib import suppress

if __name__ == "__main__":
    sys.path += sys.argv[2:]

from pit_worker import kernel
from pit_worker.supervisor import account

SHELLS = (["bash"], ["sh"])


def main() -> None:
    with open(int(sys.argv[1]), "rb") as file:
        todo = json.load(file)
    # Python ignores it, and children would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if todo["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if todo["cgroup"]:
        with open(f"{todo['cgroup']}/cgroup.procs", "w") as procs:
            procs.write("0")
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("0")
    for descriptor in todo["namespaces"]:
        kernel.set_namespace(descriptor, 0)
        os.close(descriptor)
    if todo["namespaces"]:
        _fork()  # only children are in the PID namespace
    if todo["account"]:
        os.umask(0o007)  # each user has a group of their own, so only directories of groups are for others
        account.take(*todo["account"])
    _run(todo["command"], todo["env"], todo["directory"])


def _fork() -> None:
    """Go on in a child; this process only waits for it, and ends as it did."""
    child = os.fork()
    if child == 0:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        return
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os._exit(128 - code if code < 0 else code)


def _run(command: list[str], env: dict[str, str], directory: str) -> None:
    try:
        os.chdir(directory)
    except OSError:
        os.chdir("/")
    os.environ.clear()
    os.environ.update(env)
    wanted = [command] if command else SHELLS
    error: OSError | None = None
    for words in wanted:
        try:
            os.execvpe(words[0], words, env)  # noqa: S606
        except OSError as found:
            error = found
    why = (error.strerror or "").lower() if error else ""
    os.write(2, f"pit: {wanted[0][0]}: {why}\n".encode())
    os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
