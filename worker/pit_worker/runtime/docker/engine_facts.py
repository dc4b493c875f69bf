"""What the engine says about itself: whether it is too old, and can give GPUs to containers."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

MIN_ENGINE = (20, 10)
HOOK = "nvidia-container-runtime-hook"  # what the engine looks for on its own search path
DEVICES = "nvidia.com/gpu"  # as newer engines list them


def is_too_old(version: str) -> bool:
    """Whether no containers should be run by an engine of that version."""
    return parse_version(version) < MIN_ENGINE


def parse_version(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def has_toolkit(info: dict[str, Any], engine_pid: int | None) -> bool | None:
    """Whether it has NVIDIA's toolkit, which it looks for when it starts; None if that cannot be seen."""
    if "nvidia" in info.get("Runtimes", {}):
        return True
    if any(str(device.get("ID", "")).startswith(DEVICES) for device in info.get("DiscoveredDevices") or ()):
        return True
    path = _search_path(engine_pid) if engine_pid else None
    return None if path is None else shutil.which(HOOK, path=path) is not None


def _search_path(pid: int) -> str | None:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = next((each for each in variables if each.startswith(b"PATH=")), None)
    return os.fsdecode(found.removeprefix(b"PATH=")) if found else None
