"""Whether the engine can give GPUs to containers: by NVIDIA's toolkit, which it looks for when it starts."""

import os
import shutil
from pathlib import Path
from typing import Any

HOOK = "nvidia-container-runtime-hook"  # what the engine looks for on its own search path
DEVICES = "nvidia.com/gpu"  # as newer engines list them


def has_toolkit(info: dict[str, Any], engine_pid: int | None) -> bool | None:
    """By what the engine tells of itself; None where that cannot be known from here."""
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
