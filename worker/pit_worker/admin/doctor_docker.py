"""What `pit-worker doctor` checks in the Docker engine: versions, and what containers need of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pit_worker.admin.doctor import Finding, Mark, check_disk
from pit_worker.runtime.docker.engine import Engine, EngineAway, EngineRefused
from pit_worker.runtime.docker.engine_facts import MIN_ENGINE, has_toolkit, is_too_old, parse_version
from pit_worker.runtime.docker.exit_status import find_engine
from pit_worker.runtime.docker.network.firewall import Firewall

MIN_RUNC = (1, 1, 12)  # CVE-2024-21626: an image's WORKDIR leads out of the container
BACKPORTS = "update it; a distribution may have fixed an older version: see its security tracker"
GPU_FILES = (Path("/proc/driver/nvidia/gpus"), Path("/dev/nvidia0"))
LIVE_RESTORE = 'put {"live-restore": true} into /etc/docker/daemon.json, then `systemctl reload docker`'


def check_engine(engine: Engine, *, is_needed: bool) -> list[Finding]:
    """All checks; on a node that runs no containers no finding is worse than doubtful."""
    findings = list(_check(engine))
    if is_needed:
        return findings
    return [replace(f, mark=Mark.DOUBTFUL) if f.mark is Mark.BAD else f for f in findings]


def _check(engine: Engine) -> Iterator[Finding]:
    try:
        version, info = engine.version(), engine.info()
    except (EngineAway, EngineRefused):
        hint = "install Docker, start it, and let the worker's user talk to /var/run/docker.sock"
        yield Finding("engine", Mark.BAD, "no Docker engine answers", hint)
        return
    yield from rate_versions(version)
    yield from rate_info(info)
    yield check_disk("disk of the images", Path(info.get("DockerRootDir", "/")))
    if any(file.exists() for file in GPU_FILES):
        daemon = find_engine()
        yield rate_gpus(has_toolkit(info, daemon and daemon.pid))


def rate_versions(version: dict[str, Any]) -> Iterator[Finding]:
    number = str(version.get("Version", ""))
    is_old = is_too_old(number)
    oldest = ".".join(map(str, MIN_ENGINE))
    hint = f"pit needs {oldest} or newer; until then the node takes no processes" if is_old else ""
    yield Finding("engine", Mark.BAD if is_old else Mark.GOOD, f"Docker {number} answers", hint)
    runc = next((c["Version"] for c in version.get("Components", ()) if c["Name"] == "runc"), "")
    if not runc:
        yield Finding("runc", Mark.DOUBTFUL, "the engine does not report its version", BACKPORTS)
    elif parse_version(runc) < MIN_RUNC:
        hole = f"{runc} is older than {'.'.join(map(str, MIN_RUNC))}, which closed CVE-2024-21626"
        yield Finding("runc", Mark.DOUBTFUL, hole, BACKPORTS)
    else:
        yield Finding("runc", Mark.GOOD, runc)


def rate_info(info: dict[str, Any]) -> Iterator[Finding]:
    if info.get("LiveRestoreEnabled"):
        yield Finding("live-restore", Mark.GOOD, "containers survive a restart of the engine")
    elif info.get("Swarm", {}).get("LocalNodeState") == "active":
        text = "off, as it must be in a swarm: containers die when the engine is restarted"
        hint = "drain the node (`pit set node:N state=draining`) before the engine is updated"
        yield Finding("live-restore", Mark.DOUBTFUL, text, hint)
    else:
        text = "off: containers die when the engine is restarted"
        yield Finding("live-restore", Mark.BAD, text, LIVE_RESTORE)
    wanted = {"MemoryLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpu"}
    missing = [name for key, name in wanted.items() if not info.get(key)]
    version = info.get("CgroupVersion", "1")
    if missing:
        text = f"version {version}, without {', '.join(missing)}"
        hint = "enable them (kernel options such as cgroup_enable=memory); limits have no effect without"
        yield Finding("cgroup", Mark.BAD, text, hint)
    else:
        yield Finding("cgroup", Mark.GOOD, f"version {version}, with memory, pids and cpu")


def rate_gpus(has: bool | None) -> Finding:
    """Whether the engine has NVIDIA's toolkit; None: not known."""
    if has:
        return Finding("gpus", Mark.GOOD, "the NVIDIA container toolkit is installed")
    if has is None:
        hint = "run this as root; or start a container with a GPU"
        return Finding("gpus", Mark.DOUBTFUL, "it is not known whether the engine can give GPUs", hint)
    hint = "install nvidia-container-toolkit, then restart the engine; until then jobs get no GPUs"
    return Finding("gpus", Mark.BAD, "there are GPUs, but no NVIDIA container toolkit", hint)


def check_firewall(firewall: Firewall) -> Finding:
    """Whether the firewall keeps containers from reaching the node itself."""
    if missing := firewall.missing():
        hint = "run it as root, with iptables installed; until then private networks reach this node"
        return Finding("firewall", Mark.DOUBTFUL, f"none around private networks: {missing}", hint)
    if firewall.is_up():
        return Finding("firewall", Mark.GOOD, "private networks do not reach this node")
    hint = "the worker installs it at its start and before each new network; its log has the errors"
    return Finding("firewall", Mark.DOUBTFUL, "none around private networks", hint)
