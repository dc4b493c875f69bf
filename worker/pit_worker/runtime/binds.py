"""Which directories of the node a process sees, and where, if it has mounts of its own.

Only those that the head has for it: in a container, and in the mount namespace of a process that runs as its
user.
"""

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pit_protocol.messages.beat import ProcessSpec
from pit_worker.spool.environment import NodeFault, StartRefused

INSIDE = PurePosixPath("/pit")  # of a container
VENVS = "venvs"
OF_JOB = ("SRC_DIR", "KEEP_DIR", "RESULT_FILE")  # below JOB_DIR, so not mounted separately
READ_ONLY = ("SHARED_DIR", "SRC_DIR")  # SRC_DIR only if it is elsewhere: elements of an array share it


@dataclass(frozen=True)
class Bind:
    """A directory of the node and its path inside."""

    source: Path
    target: PurePosixPath
    read_only: bool
    identity: tuple[int, int]  # device and inode, when it was checked


def find_binds(
    root: Path, spec: ProcessSpec, inside: PurePosixPath = INSIDE, mounted_by: int | None = None
) -> tuple[Bind, ...]:
    """All directories to mount; raises StartRefused for one that is missing or leads elsewhere.

    `mounted_by` is the process that mounts them; None: this one.
    """
    if not root.is_dir():
        raise NodeFault(f"the data root {root} is not there on this node")
    binds = []
    job = PurePosixPath(spec.paths.get("JOB_DIR", ""))
    for name, target in targets(spec, inside).items():
        relative = PurePosixPath(spec.paths[name])
        if name in OF_JOB and job in relative.parents:
            continue
        bind = Bind(root / relative, target, name in READ_ONLY, _identify(root, name, relative))
        binds += [bind, *(_list_below(bind, mounted_by) if name == "SHARED_DIR" else ())]
    return tuple(binds)


def bind_venvs(place: Path, inside: PurePosixPath = INSIDE) -> Bind:
    """The directory in which a user's Python environments are."""
    stat = place.stat()
    return Bind(place, inside / VENVS, False, (stat.st_dev, stat.st_ino))


def targets(spec: ProcessSpec, inside: PurePosixPath = INSIDE) -> dict[str, PurePosixPath]:
    """The path inside for each path of a spec, by the variable that names it; raises StartRefused."""
    for name in ("JOB_DIR", "SRC_DIR"):
        if name not in spec.paths:
            raise StartRefused(f"the order names no {name}")
    found = {}
    for name, text in spec.paths.items():
        path = PurePosixPath(text)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise StartRefused(f"{name} leads out of the data root: {text}")
        found[name] = _target(name, path, PurePosixPath(spec.paths["JOB_DIR"]), inside)
    return found


def check_inside(pid: int | None, binds: tuple[Bind, ...]) -> None:
    """Check that the directories that were checked are those that were mounted; raises StartRefused.

    Between check and mount someone may have replaced one by a link. `pid` has the mounts; None: this thread.
    """
    root = f"/proc/{pid}/root" if pid else ""
    for bind in binds:
        try:
            seen = os.stat(f"{root}{bind.target}")  # noqa: PTH116
        except PermissionError:
            # A worker that is not root cannot check, nor mount what its own user may not.
            continue
        except OSError as error:
            raise NodeFault(f"{bind.source} cannot be found where it was mounted: {error}") from error
        if (seen.st_dev, seen.st_ino) != bind.identity:
            raise StartRefused(f"{bind.source} was replaced while it was being mounted")


def _target(name: str, path: PurePosixPath, job: PurePosixPath, inside: PurePosixPath) -> PurePosixPath:
    if name == "SRC_DIR" and path.name == "src" and path.parent in job.parents:
        return inside / "src"  # of an array: JOB_DIR is that of one of its elements
    if name in OF_JOB:
        if job not in path.parents:
            raise StartRefused(f"{name} is not below JOB_DIR: {path}")
        return inside / "job" / path.relative_to(job)
    if name.endswith("_GROUP_DIR"):
        return inside / "groups" / path.name
    fixed = {"SHARED_DIR": "shared", "USER_DIR": "home", "JOB_DIR": "job"}
    if name not in fixed:
        raise StartRefused(f"{name} has no place where the process could see it")
    return inside / fixed[name]


def _identify(root: Path, name: str, relative: PurePosixPath) -> tuple[int, int]:
    """Device and inode of a directory below the root, without following links."""
    way = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    handle = os.open(root, way)
    try:
        for part in relative.parts:
            following = os.open(part, way | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = following
        stat = os.fstat(handle)
    except FileNotFoundError:
        raise NodeFault(f"{name} is not there: {root / relative}") from None
    except NotADirectoryError:
        raise StartRefused(f"{name} is not a directory, or leads through a link: {root / relative}") from None
    finally:
        os.close(handle)
    return stat.st_dev, stat.st_ino


def _list_below(bind: Bind, mounted_by: int | None) -> list[Bind]:
    """What is mounted below a read-only directory: it would stay writable if not mounted separately."""
    # This process may have a mount namespace of its own, in which later mounts of the machine are missing.
    process = Path("/proc", str(mounted_by or "self"))
    if not os.access(process / "root/.", os.R_OK):
        process = Path("/proc/self")  # a worker that is not root
    places = {_unescape(line.split()[4]) for line in (process / "mountinfo").read_text().splitlines()}
    below = []
    for place in sorted(place for place in places if bind.source in place.parents):
        stat = Path(f"{process}/root{place}").stat()
        target = bind.target / place.relative_to(bind.source)
        below.append(Bind(place, target, True, (stat.st_dev, stat.st_ino)))
    return below


def _unescape(text: str) -> Path:
    return Path(text.encode().decode("unicode_escape") if "\\" in text else text)
