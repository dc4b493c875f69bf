"""Calls of Linux for which Python 3.11 has no function.

The fork server has this in memory, and every supervisor starts as a copy of that: it imports nothing else.
"""

import ctypes
import os

CLONE_NEWNS = 0x20000
CLONE_NEWPID = 0x20000000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SLAVE = 0x80000
MNT_DETACH = 0x2
PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags))


def set_namespace(descriptor: int, kind: int) -> None:
    _check(_libc.setns(descriptor, kind))


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _check(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]))


def unmount(place: bytes) -> None:
    """Remove a mount from sight, even while it is in use."""
    _check(_libc.umount2(place, MNT_DETACH))


def prctl(option: int, value: int = 0) -> None:
    _check(_libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))))


def set_name(name: str) -> None:
    """Change the name of this process that `ps` and `top` show, to at most 15 characters."""
    _check(_libc.prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()), 0, 0, 0))


def clear_capabilities() -> None:
    """Give up all capabilities: effective, permitted and inheritable ones."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()))


def _check(answer: int) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
