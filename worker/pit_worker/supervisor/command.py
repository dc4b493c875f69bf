"""What happens between the fork for a command and its first instruction: namespace, account, environment."""

# ruff: noqa: PTH116, PTH118 - pathlib and contextlib take long to import

from __future__ import annotations

import errno
import os
import signal

from pit_worker import kernel
from pit_worker.supervisor import account
from pit_worker.supervisor.launch import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PRELUDE = "PIT_VENV_PRELUDE"  # a program that comes before the command, if the job has a Python environment
MOST_DESCRIPTORS = 64  # more than a supervisor opens
CANNOT_RUN, NO_PYTHON, TERMINATED = 126, 125, 143
RESET = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)


def run(launch: Launch, sink: int, is_signalled: Callable[[], bool]) -> None:
    """Become the command; never returns. It writes its output to `sink`."""
    try:
        for number in RESET:
            signal.signal(number, signal.SIG_DFL)  # Python ignores some of them, which commands would inherit
        if is_signalled():
            os._exit(TERMINATED)
        # What has been blocked since the fork ends this here.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.closerange(3, MOST_DESCRIPTORS)
        _join_cgroup(launch)
        _take_oom_score()
        if launch.is_namespaced:
            _enter_namespace(launch)
        _become(launch)
    except OSError as error:
        _fail(f"pit: the command could not be started: {error}", CANNOT_RUN)
    finally:
        os._exit(CANNOT_RUN)


def exit_code(status: int) -> int:
    """As a shell says it: 128 and its number for a signal."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def note_end(directory: str, code: int) -> None:
    """Record how the command ended while something that it left behind goes on; once."""
    if not has_noted_end(directory):
        try:
            with open(f"{directory}/exit.part", "wb") as file:
                file.write(f"{code}\n".encode())
        except OSError:
            pass  # a full disk: the empty file says so


def has_noted_end(directory: str) -> bool:
    try:
        return os.stat(f"{directory}/exit.part").st_size > 0
    except OSError:
        return False


def _join_cgroup(launch: Launch) -> None:
    """Only the command joins: killing the whole cgroup then leaves the supervisor to record it."""
    if not launch.cgroup:
        return
    try:
        with open(f"{launch.cgroup}/cgroup.procs", "wb") as file:
            file.write(b"0")
    except OSError:
        with open(f"{launch.directory}/fault", "wb") as file:
            file.write(f"it cannot enter its cgroup {launch.cgroup}\n".encode())
        os._exit(CANNOT_RUN)


def _take_oom_score() -> None:
    """The worker may be shielded from the OOM killer; what it runs must not be."""
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(b"0")
    except OSError:
        pass


def _enter_namespace(launch: Launch) -> None:
    """Be the first process of the PID namespace, and return in its first child.

    If the first one is killed, the kernel kills everything inside. It ends when nothing is left inside.
    """
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    kernel.set_name("pit-init")
    mount_proc()
    first = os.fork()
    if first == 0:
        return
    os.dup2(0, 1)  # or the output would never end
    os.dup2(0, 2)
    code = CANNOT_RUN
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(code)
        if pid == first:
            code = exit_code(status)
            if not _is_alone():
                # What is left may have a grace period: the worker sees this, and kills it in time.
                note_end(launch.directory, code)


def mount_proc() -> None:
    """Show in /proc what is in this PID namespace; mounts that are made on the node later still appear."""
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_SLAVE)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)


def _is_alone() -> bool:
    """Whether this process has no children; one that has ended meanwhile counts until it is waited for."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _become(launch: Launch) -> None:
    if launch.account:
        # Each user has a group of their own, so only directories of groups are for others.
        os.umask(0o007)
        account.take(*launch.account)
    # Nothing of this may run as another user: SRC_DIR may be a link by now.
    source_dir = launch.environment["SRC_DIR"]
    try:
        os.chdir(source_dir)
    except OSError as error:
        _fail(f"pit: {source_dir} cannot be entered: {error.strerror}", CANNOT_RUN)
    # The user's own variables come last: only the command gets them.
    environment = {**launch.environment, "PWD": source_dir, **launch.variables}
    words = ["/bin/bash", launch.script]
    if prelude := launch.environment.get(PRELUDE):
        words = [_find_python(environment.get("PATH", "")), "-I", prelude, *words]
    try:
        os.execve(words[0], words, environment)  # noqa: S606
    except OSError as error:
        what = "the environment is too large" if error.errno == errno.E2BIG else str(error)
        _fail(f"pit: {words[0]} cannot be started: {what}", CANNOT_RUN)


def _find_python(search_path: str) -> str:
    for folder in search_path.split(":"):
        place = os.path.join(folder, "python3")
        if os.access(place, os.X_OK):
            return place
    _fail("venv: this node has no python3", NO_PYTHON)
    return ""


def _fail(line: str, code: int) -> None:
    os.write(2, f"{line}\n".encode(errors="surrogateescape"))
    os._exit(code)
