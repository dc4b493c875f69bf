"""What `pit-worker doctor` looks at in the Docker engine: versions, and what containers need of it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pit_worker.doctor import Finding, Mark, check_disk
from pit_worker.engine import Engine, EngineAway, EngineRefused
from pit_worker.engine_facts import ENGINE_FLOOR, has_toolkit, is_too_old, parse_version
from pit_worker.firewall import Firewall
from pit_worker.verdicts import find_engine

RUNC_FLOOR = (1, 1, 12)  # CVE-2024-21626: an image's WORKDIR leads out of the container
BACKPORTS = "update it; a distribution may have mended an older version: its security tracker tells"
GPU_FILES = (Path("/proc/driver/nvidia/gpus"), Path("/dev/nvidia0"))
LIVE_RESTORE = 'put {"live-restore": true} into /etc/docker/daemon.json, then `systemctl reload docker`'


def check_engine(engine: Engine, *, is_needed: bool) -> list[Finding]:
    """All of it; nothing is worse than doubtful on a node that runs no containers."""
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
    yield from judge_versions(version)
    yield from judge_info(info)
    yield check_disk("disk of the images", Path(info.get("DockerRootDir", "/")))
    if any(file.exists() for file in GPU_FILES):
        daemon = find_engine()
        yield judge_gpus(has_toolkit(info, daemon and daemon.pid))


def judge_versions(version: dict[str, Any]) -> Iterator[Finding]:
    told = str(version.get("Version", ""))
    is_old = is_too_old(told)
    floor = ".".join(map(str, ENGINE_FLOOR))
    hint = f"pit needs {floor} or newer; until then the node takes no processes" if is_old else ""
    yield Finding("engine", Mark.BAD if is_old else Mark.GOOD, f"Docker {told} answers", hint)
    runc = next((c["Version"] for c in version.get("Components", ()) if c["Name"] == "runc"), "")
    if not runc:
        yield Finding("runc", Mark.DOUBTFUL, "the engine does not tell its version", BACKPORTS)
    elif parse_version(runc) < RUNC_FLOOR:
        hole = f"{runc} is older than {'.'.join(map(str, RUNC_FLOOR))}, which closed CVE-2024-21626"
        yield Finding("runc", Mark.DOUBTFUL, hole, BACKPORTS)
    else:
        yield Finding("runc", Mark.GOOD, runc)


def judge_info(info: dict[str, Any]) -> Iterator[Finding]:
    if info.get("LiveRestoreEnabled"):
        yield Finding("live-restore", Mark.GOOD, "containers outlive a restart of the engine")
    elif info.get("Swarm", {}).get("LocalNodeState") == "active":
        text = "off, as it must be in a swarm: containers die when the engine is started anew"
        hint = "drain the node (`pit set node:N state=draining`) before the engine is updated"
        yield Finding("live-restore", Mark.DOUBTFUL, text, hint)
    else:
        text = "off: containers die when the engine is started anew"
        yield Finding("live-restore", Mark.BAD, text, LIVE_RESTORE)
    wanted = {"MemoryLimit": "memory", "PidsLimit": "pids", "CpuCfsQuota": "cpu"}
    lacking = [name for key, name in wanted.items() if not info.get(key)]
    version = info.get("CgroupVersion", "1")
    if lacking:
        text = f"version {version}, without {', '.join(lacking)}"
        hint = "enable them (kernel options such as cgroup_enable=memory); limits do not hold without"
        yield Finding("cgroup", Mark.BAD, text, hint)
    else:
        yield Finding("cgroup", Mark.GOOD, f"version {version}, with memory, pids and cpu")


def judge_gpus(has: bool | None) -> Finding:
    """Whether the engine has NVIDIA's toolkit; None: that is not known."""
    if has:
        return Finding("gpus", Mark.GOOD, "the NVIDIA container toolkit is there")
    if has is None:
        hint = "run this as root; a container with a GPU shows it, too"
        return Finding("gpus", Mark.DOUBTFUL, "whether the engine can give GPUs cannot be seen", hint)
    hint = "install nvidia-container-toolkit, then start the engine anew; until then no GPU is given away"
    return Finding("gpus", Mark.BAD, "there are GPUs, but no NVIDIA container toolkit", hint)


def check_firewall(firewall: Firewall) -> Finding:
    """Whether containers are kept from the node itself."""
    if lack := firewall.lack():
        hint = "run it as root, with iptables installed; until then private networks reach this node"
        return Finding("firewall", Mark.DOUBTFUL, f"none around private networks: {lack}", hint)
    if firewall.is_up():
        return Finding("firewall", Mark.GOOD, "private networks do not reach this node")
    hint = "the worker makes it when it starts and before each new network; its log says what went wrong"
    return Finding("firewall", Mark.DOUBTFUL, "none around private networks", hint)
