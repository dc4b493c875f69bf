"""Runs the command of one process, once, copies its output to a file, and leaves its exit status behind."""

# ruff: noqa: PTH104, PTH108, SIM105 - pathlib and contextlib take long to import

from __future__ import annotations

import _thread
import fcntl
import os
import select
import signal
import time

from pit_protocol.system.pieces import BLOCK, Pieces, try_append
from pit_worker import kernel
from pit_worker.supervisor import command, lease, namespace
from pit_worker.supervisor.launch import Launch

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
KILL_ROUNDS, KILL_PAUSE_S = 1000, 0.002


class Signalled:
    """Whether a signal came: one that comes before the command has started must not be lost."""

    def __init__(self) -> None:
        self.is_set = False
        for number in ENDING:
            # Also, a signal to the whole tree must not keep the exit status from being recorded.
            signal.signal(number, self._note)

    def _note(self, *_: object) -> None:
        self.is_set = True


def supervise(launch: Launch, mounts: int | None) -> None:
    """Be the supervisor; never returns. `mounts` is the mount namespace of the process, if it has one."""
    try:
        os.setsid()
        signalled = Signalled()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        kernel.set_name("pit-supervisor")
        if _claim(launch.directory):
            try:
                _run(launch, mounts, signalled)
            except (OSError, RuntimeError) as error:  # the second if a thread cannot be started
                _write(f"{launch.directory}/fault", f"it could not be started: {error}")
    finally:
        os._exit(0)


def _claim(directory: str) -> bool:
    """Take the only right to start the command; False if another supervisor has it, of whichever worker.

    The file appears with its content, so that a worker knows whose claim it is.
    """
    own = f"{directory}/started.{os.getpid()}"
    with open("/proc/self/stat", "rb") as stat:
        _write(own, stat.read())
    try:
        os.link(own, f"{directory}/started")
    except FileExistsError:
        return False
    finally:
        os.unlink(own)
    return True


def _run(launch: Launch, mounts: int | None, signalled: Signalled) -> None:
    # Only what this process opens itself: not the worker's socket.
    keep = {0, 1, 2} if mounts is None else {0, 1, 2, mounts}
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                pass  # the one that listed them
    if mounts is not None:
        kernel.set_namespace(mounts, kernel.CLONE_NEWNS)
        os.close(mounts)
    if launch.adopts_orphans:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    if launch.lease_s and not lease.remaining_s(launch):
        lease.note_expiry(launch)
        _save_exit(launch.directory, 143, is_empty=True)
        return
    # Through a pipe with a name: a script that opens /dev/stderr would truncate a file.
    pipe = f"{launch.directory}/pipe"
    source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    sink = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)
    own = namespace.begin() if launch.is_namespaced else -1
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    pid = os.fork()
    if pid == 0:
        command.run(launch, sink, lambda: signalled.is_set)
    if launch.is_namespaced:
        namespace.leave(own)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    os.close(sink)
    if launch.lease_s:
        # A thread: it ends the process in time even while the disk blocks this one.
        _thread.start_new_thread(lease.watch, (launch,))
    code = _copy_until_end(launch, source, pid)
    is_empty = launch.is_namespaced or (launch.adopts_orphans and _kill_children())
    _save_exit(launch.directory, code, is_empty=is_empty)


def _copy_until_end(launch: Launch, source: int, pid: int) -> int:
    """Copy the output until nobody can write any more and the command has ended; its exit code."""
    output = Pieces(f"{launch.directory}/output", f"{launch.directory}/output.")
    offset = output.size()
    handle = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(source, select.POLLIN)
    poller.register(handle, select.POLLIN)
    ended = _watch_children(poller) if launch.adopts_orphans else -1
    code: int | None = None
    is_open = True
    while is_open or code is None:
        ready = {descriptor for descriptor, _ in poller.poll()}
        if code is None and handle in ready:
            code = command.exit_code(os.waitpid(pid, 0)[1])
            poller.unregister(handle)
        if ended in ready:
            os.read(ended, BLOCK)
            _reap_orphans(pid)
        while is_open:
            try:
                data = os.read(source, BLOCK)
            except BlockingIOError:
                break
            is_open = bool(data)
            if data:
                offset = _append(output, data, offset, launch.keep, source)
        if not is_open and source in ready:
            poller.unregister(source)
        if is_open and code is not None:
            # What the command left behind has the pipe open; the worker sees this file, and kills that.
            command.note_end(launch.directory, code)
    if offset > output.size():
        try_append(output, b"", offset, launch.keep)  # so that bytes dropped at the end count, too
    return code if code is not None else 0


def _watch_children(poller: select.poll) -> int:
    """A descriptor that is readable when a child has ended: of orphans nobody else is told."""
    ended, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    poller.register(ended, select.POLLIN)
    return ended


def _reap_orphans(command_pid: int) -> None:
    """Let those that have ended go, but not the command, whose exit status is still wanted."""
    try:
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid == command_pid:
                return  # the caller takes it next
            os.waitpid(found.si_pid, 0)
    except ChildProcessError:
        pass


def _append(output: Pieces, data: bytes, offset: int, keep: int, source: int) -> int:
    if offset == 0:
        try:
            # Larger reads make it as fast as `cat`. The kernel may refuse, where a user has many pipes.
            fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, BLOCK)
        except OSError:
            pass
    try_append(output, data, offset, keep)
    return offset + len(data)


def _kill_children() -> bool:
    """Kill what the command left behind, which was adopted; whether all of it is gone."""
    for _ in range(KILL_ROUNDS):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        # What a killed one leaves becomes a child, too.
        for child in _children():
            os.kill(child, signal.SIGKILL)
        time.sleep(KILL_PAUSE_S)
    return False


def _children() -> list[int]:
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:
                    state, parent = stat.read().rpartition(b") ")[2].split()[:2]
            except OSError:
                continue
            if int(parent) == own and state != b"Z":
                found.append(int(name))
    return found


def _save_exit(directory: str, code: int, *, is_empty: bool) -> None:
    """In one step, so that a reader finds all of it or nothing; a full disk leaves an empty file."""
    part = f"{directory}/exit.part"
    # What contains the command may have written it before, and been killed since.
    if not command.has_noted_end(directory):
        try:
            _write(part, f"{code} empty\n" if is_empty else f"{code}\n")
        except OSError:
            pass
    os.rename(part, f"{directory}/exit")


def _write(path: str, content: str | bytes) -> None:
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
