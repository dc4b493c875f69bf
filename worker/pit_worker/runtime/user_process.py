"""Starting a process as its user: with their uid, gid and groups, and with mounts of its own.

The process finds its directories below /run/pit, wherever they are on the node. So the data root and the
spool stay closed to users, and a process reaches only what its user may use, as in a container.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from pit_protocol.messages.beat import Account, ProcessSpec
from pit_worker import mount_namespace
from pit_worker.runtime import binds
from pit_worker.runtime.binds import Bind, targets
from pit_worker.runtime.fork_server import PACKAGES, python
from pit_worker.spool.attempt_dir import ATTEMPTS
from pit_worker.spool.entry import Entry
from pit_worker.spool.environment import Places
from pit_worker.supervisor import account
from pit_worker.venv import cache

INSIDE = PurePosixPath("/run/pit")
VENVS, PRELUDE = INSIDE / binds.VENVS, INSIDE / cache.PRELUDE.name
NOBODY = Account(65534, 65534)


def why_not() -> str:
    """Why this worker cannot start processes as their users; empty if it can."""
    if os.geteuid() != 0:
        return "the worker is not root"
    try:
        tried = mount_namespace.call_inside(_try)
    except OSError as error:
        return f"the worker is root, but may not make mounts: {(error.strerror or str(error)).lower()}"
    return f"the worker is root, but cannot become another user: {tried}" if tried else ""


def places_of(spec: ProcessSpec) -> Places:
    """The paths that a process sees."""
    inside = {name: str(target) for name, target in targets(spec, INSIDE).items()}
    return Places(inside, *(str(INSIDE / name) for name in ("hostfile", "command", "variables")))


def make_mounts(entry: Entry, spec: ProcessSpec, venvs: Path | None) -> int:
    """A mount namespace in which a process has its directories: a descriptor, to be closed by the caller.

    `venvs` is the directory of its user's Python environments, if it needs one. Raises StartRefused, or
    OSError if they cannot be mounted.
    """

    def inside() -> int:
        # Found in here, because only mounts of this namespace can be mounted in it.
        found = binds.find_binds(Path(entry.intent.data_root), spec, INSIDE)
        if venvs:
            found += (binds.bind_venvs(venvs, INSIDE),)
        _mount_all(entry, found, [cache.PRELUDE] if venvs else [])
        binds.check_inside(None, found)
        return os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    return mount_namespace.call_inside(inside)


def _mount_all(entry: Entry, found: Sequence[Bind], programs: Sequence[Path]) -> None:
    _make_root()
    for bind in found:
        if bind.target.is_relative_to(INSIDE / "shared") and bind.target != INSIDE / "shared":
            mount_namespace.protect(bind.target)  # came with the directory above it
            continue
        Path(bind.target).mkdir(parents=True)
        mount_namespace.bind(bind.source, bind.target, read_only=bind.read_only)
    for file in (entry.hostfile, entry.command, *programs):
        if file.exists():
            Path(INSIDE / file.name).touch()
            mount_namespace.bind(file, INSIDE / file.name, read_only=True)
    # Data of other jobs that is mounted on this node: it must not stay mounted for the sake of this process.
    mount_namespace.detach_below(entry.path.parent / ATTEMPTS)
    with suppress(OSError):  # another process's arguments are no secret that pit promises to keep
        mount_namespace.hide_processes()


def _make_root() -> None:
    Path(INSIDE).mkdir(mode=0o755, exist_ok=True)
    mount_namespace.mount_memory(INSIDE)


def _try() -> str:
    """Do what a start does; returns why it failed, if it did."""
    _make_root()
    words = [*python(account.__file__), str(NOBODY.uid), str(NOBODY.gid), *PACKAGES]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else ""
