"""What this machine has and which boot of it this is."""

import os
from pathlib import Path

from pit_protocol.messages.beat import Inventory, Resource

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MEMINFO = Path("/proc/meminfo")


def read_inventory(resources: tuple[Resource, ...] = ()) -> Inventory:
    return Inventory(len(os.sched_getaffinity(0)), _memory_mib(MEMINFO.read_text()), resources)


def read_boot_id() -> str:
    return BOOT_ID.read_text().strip()


def _memory_mib(meminfo: str) -> int:
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) // 1024
    return 0
