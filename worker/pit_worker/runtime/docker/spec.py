"""From the spec of a process to the options of its container; no other module sets options.

Only the image's name, the environment and the command come from a user; and only its files and the rest of
its environment come from the image.
"""

import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from docker.types import (  # type: ignore[import-untyped]
    DeviceRequest,
    EndpointConfig,
    Healthcheck,
    LogConfig,
    Mount,
)

from pit_protocol.messages.beat import HOST, PRIVATE, Account, Container, ProcessSpec
from pit_worker.runtime.base import LEASE_SCRIPT
from pit_worker.runtime.binds import INSIDE, VENVS, Bind, targets
from pit_worker.runtime.docker.engine import ContainerInfo, Image
from pit_worker.spool.entry import Entry
from pit_worker.spool.environment import DEFAULTS
from pit_worker.venv import cache

COMMAND, HOSTFILE, OUTPUT = INSIDE / "command", INSIDE / "hostfile", INSIDE / "output"
LEASE, EXPIRED, VARIABLES = INSIDE / "lease", INSIDE / "expired", INSIDE / "variables"
PRELUDE = INSIDE / "venv.py"
MIB = 1024 * 1024
# Opening the output waits for the output writer: before that nothing of the user's runs.
# Each user has a group of their own, so the wide umask matters only in directories of groups.
OPEN = f"umask 002\nexec </dev/null >{OUTPUT} 2>&1\n"
# The user's own variables come last, so that they affect nothing else in here.
RUN = f"""
set -- "$(command -v bash || echo /bin/sh)" "$1"
[ ! -e {VARIABLES} ] || . {VARIABLES}
if [ -n "$PIT_VENV_PRELUDE" ]; then
    python=$(command -v python3) || {{ echo "venv: this image has no python3"; exit 125; }}
    set -- "$python" -I "$PIT_VENV_PRELUDE" "$@"
fi
exec "$@"
"""
ENTER = OPEN + RUN
# The lease watchdog is a child of the init, not of the command, which may count its children. It ends
# with the command, as everything inside.
WATCHDOG = f"""
command -v sleep >/dev/null 2>&1 || {{ echo "pit: this image has no sleep, which a lease needs"; exit 126; }}
lease_lasts {LEASE} "$2" || {{ echo over >{EXPIRED}; exit 143; }}
( (
    trap '' TERM INT HUP
    await_expiry {LEASE} "$2"
    echo over >{EXPIRED}
    echo "pit: this node had no contact with the head for $2 s; ending"
    kill -TERM -1
    sleep "$3"
    kill -KILL -1
) & )
"""
# An image must not set these: they control the GPU driver's hook, or load code into every program. It
# may set the path of its own libraries.
RESERVED = ("NVIDIA_", "LD_PRELOAD", "LD_AUDIT", "LD_DEBUG", "LD_BIND", "CUDA_VISIBLE_DEVICES")


def container_name(entry: Entry) -> str:
    return f"pit-{entry.marker}"


def network_name(entry: Entry, spec: ProcessSpec) -> str:
    """The name of the private network of a job's attempt."""
    return f"pit-{entry.intent.cluster}-{spec.job}-{entry.key.attempt}"


def labels(entry: Entry, spec: ProcessSpec) -> dict[str, str]:
    """By which a worker finds its own containers."""
    return {
        **own_labels(entry),
        "pit.job": str(spec.job),
        "pit.process": str(entry.key.process),
        "pit.attempt": str(entry.key.attempt),
        "pit.boot": entry.intent.boot_id,
    }


def is_own(found: ContainerInfo, entry: Entry) -> bool:
    """Whether a container with an entry's name belongs to that entry."""
    return own_labels(entry).items() <= dict(found.labels).items()


def own_labels(entry: Entry) -> dict[str, str]:
    return {"pit.cluster": entry.intent.cluster, "pit.spool": str(entry.path.parent)}


def arguments(entry: Entry, spec: ProcessSpec, image: Image, binds: Sequence[Bind]) -> dict[str, Any]:
    """The arguments of docker-py's `containers.create` for a process; a spec without container is a bug."""
    container = spec.container
    assert container  # noqa: S101
    return {
        "image": image.id,
        "name": container_name(entry),
        "labels": labels(entry, spec),
        **_program(spec),
        "working_dir": str(targets(spec)["SRC_DIR"]),
        "environment": environment(entry, spec, image),
        "user": _user(spec.account),
        "group_add": [str(gid) for gid in spec.account.gids] if spec.account else [],
        "mounts": [*map(_mount, binds), *_files(entry, spec)],
        **_limits(spec, container),
        **_isolation(),
        **_network(entry, spec, container),
        **_gpus(spec),
    }


def environment(entry: Entry, spec: ProcessSpec, image: Image) -> list[str]:
    """The variables of a container; a name without `=` unsets what the image has set."""
    places = {name: str(target) for name, target in targets(spec).items()}
    own = {
        **({"HOME": places["USER_DIR"]} if "USER_DIR" in places else {}),
        **{name: value for name, value in spec.env.items() if not name.startswith("NVIDIA_")},
        **places,
        "HOSTFILE": str(HOSTFILE),
        "PIT_COOKIE": entry.marker,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        # The container has no others, so they are numbered from 0.
        "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index, _ in enumerate(spec.units)),
    }
    if spec.venv:
        own |= cache.variables(spec.venv, str(INSIDE / VENVS), str(PRELUDE), image.id)
    if spec.units:
        own["NVIDIA_DRIVER_CAPABILITIES"] = "compute,utility"
    else:
        own["NVIDIA_VISIBLE_DEVICES"] = "void"
    of_image = [text.partition("=")[0] for text in image.env]
    for name, value in DEFAULTS.items():
        if name not in of_image:
            own.setdefault(name, value)
    unset = [name for name in of_image if name.startswith(RESERVED) and name not in own]
    return [*unset, *(f"{name}={value}" for name, value in own.items())]


def _program(spec: ProcessSpec) -> dict[str, Any]:
    if spec.lease_s is None:
        return {"entrypoint": ["/bin/sh", "-c", ENTER, "pit"], "command": [str(_script(spec))]}
    program = OPEN + LEASE_SCRIPT.read_text() + WATCHDOG + RUN
    times = [f"{spec.lease_s:.0f}", f"{spec.grace_s:g}"]
    return {"entrypoint": ["/bin/sh", "-c", program, "pit"], "command": [str(_script(spec)), *times]}


def _script(spec: ProcessSpec) -> PurePosixPath:
    return targets(spec)["SRC_DIR"] / ".compute" if spec.command is None else COMMAND


def _user(account: Account | None) -> str:
    return f"{account.uid}:{account.gid}" if account else f"{os.geteuid()}:{os.getegid()}"


def _mount(bind: Bind) -> Mount:
    return Mount(str(bind.target), str(bind.source), type="bind", read_only=bind.read_only)


def _files(entry: Entry, spec: ProcessSpec) -> list[Mount]:
    files = [
        Mount(str(OUTPUT), str(entry.pipe), type="bind"),
        Mount(str(HOSTFILE), str(entry.hostfile), type="bind", read_only=True),
    ]
    if spec.command is not None:
        files.append(Mount(str(COMMAND), str(entry.command), type="bind", read_only=True))
    if spec.variables:
        files.append(Mount(str(VARIABLES), str(entry.variables), type="bind", read_only=True))
    if spec.venv:
        files.append(Mount(str(PRELUDE), str(cache.PRELUDE), type="bind", read_only=True))
    if spec.lease_s:
        files.append(Mount(str(LEASE), str(entry.lease), type="bind", read_only=True))
        files.append(Mount(str(EXPIRED), str(entry.expired), type="bind"))
    return files


def _limits(spec: ProcessSpec, container: Container) -> dict[str, Any]:
    limits: dict[str, Any] = {"pids_limit": container.pids, "shm_size": container.shm_mib * MIB}
    if spec.memory_mib:
        # The same limit with swap means: no swap.
        limits |= {"mem_limit": spec.memory_mib * MIB, "memswap_limit": spec.memory_mib * MIB}
    if spec.cpus:
        limits["nano_cpus"] = int(min(spec.cpus, os.cpu_count() or spec.cpus) * 1e9)
    return limits


def _isolation() -> dict[str, Any]:
    return {
        "init": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "privileged": False,
        "ipc_mode": "private",
        "healthcheck": Healthcheck(test=["NONE"]),
        "log_config": LogConfig(type="none"),
        "restart_policy": {"Name": "no"},
        "detach": True,
    }


def _network(entry: Entry, spec: ProcessSpec, container: Container) -> dict[str, Any]:
    if container.network == HOST:
        return {"network_mode": "host"}
    name = network_name(entry, spec) if container.network == PRIVATE else container.network
    endpoint = EndpointConfig(version="1.41", aliases=[container.name])
    return {"hostname": container.name, "network": name, "networking_config": {name: endpoint}}


def _gpus(spec: ProcessSpec) -> dict[str, Any]:
    if not spec.units:
        return {}
    return {"device_requests": [DeviceRequest(device_ids=list(spec.units), capabilities=[["gpu"]])]}
