"""A test that needs what this machine does not have is skipped on a laptop, and fails in CI."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

SYS_ADMIN = 21  # number of the capability, in linux/capability.h
PROGRAMS = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"


def lack(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {what}")
    pytest.skip(what)


def need_programs(*names: str) -> None:
    for name in names:
        if shutil.which(name, path=PROGRAMS) is None:
            lack(f"{name} is not installed")


def need_system_rights() -> None:
    """To mount file systems and to make network namespaces. Root in a container often may not."""
    status = Path("/proc/self/status").read_text()
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    if os.geteuid() != 0 or not effective >> SYS_ADMIN & 1:
        lack("no right to mount file systems and to make network namespaces")
