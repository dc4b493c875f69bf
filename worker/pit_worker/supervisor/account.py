"""Giving up root for the account of a user, without any way back. `account.py UID GID` tries it."""

from __future__ import annotations

import errno
import os
import sys

if __name__ == "__main__":
    sys.path += sys.argv[3:]

from pit_worker import kernel


def take(uid: int, gid: int, gids: list[int]) -> None:
    """Make this process one of that user: no capabilities, and no program that could bring any."""
    os.setgroups(gids)
    os.setresgid(gid, gid, gid)
    _empty_bounding_set()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    os.setresuid(uid, uid, uid)
    # After the last user id that was root's is gone, only inheritable ones can be left.
    kernel.clear_capabilities()


def _empty_bounding_set() -> None:
    """Capabilities are numbered from 0; the kernel does not know the number after its last one."""
    for capability in range(64):
        try:
            kernel.prctl(kernel.PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL and capability:
                return
            raise


if __name__ == "__main__":
    try:
        take(int(sys.argv[1]), int(sys.argv[2]), [])
    except OSError as error:
        sys.exit(str(error.strerror).lower())
