"""Which commands run on Linux only, and what to do elsewhere."""

import sys

from pit_protocol.problem import Problem

LINUX = "linux"
_NAMES = {"darwin": "macOS"}
_NEEDS = {
    "up": ("Linux for its head and worker", "`pit connect URL` uses a head on another machine"),
    "down": ("Linux, as `pit up` does", "run it on the machine where `pit up` started them"),
    "mount": ("Linux with FUSE", "`pit pull` and `pit push` copy files; WebDAV clients can mount URL/dav"),
}


def require_linux(command: str, platform: str | None = None) -> None:
    """Raise a Problem on any other system."""
    here = platform or sys.platform
    if here != LINUX:
        need, hint = _NEEDS[command]
        system = _NAMES.get(here, here)
        raise Problem("needs_linux", f"`pit {command}` needs {need}; this is {system}", hint)
