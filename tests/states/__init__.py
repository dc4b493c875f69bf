"""Every state that a work tree can be in, each made in a project with one pushed commit."""

import os
from pathlib import Path

from tests.states import files, history, inside, settings
from tests.states.making import STATES, State, commit

__all__ = ("STATES", "State", "commit", "contents", "files", "history", "inside", "settings")


def contents(directory: Path) -> dict[bytes, tuple[str, bytes]]:
    """All files below a directory with kind and bytes; but not git's own, nor those called `ignored…`."""
    found: dict[bytes, tuple[str, bytes]] = {}
    for folder, folders, plain in os.walk(os.fsencode(directory)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*plain, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, os.fsencode(directory))
            if name.startswith(b"ignored") or name == b".git":
                continue
            if os.path.islink(path):
                found[relative] = ("link", os.readlink(path))
            else:
                mode = "executable" if os.stat(path).st_mode & 0o100 else "file"
                found[relative] = (mode, Path(os.fsdecode(path)).read_bytes())
    return found
