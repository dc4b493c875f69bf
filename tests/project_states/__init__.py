"""States that a work tree can be in; each is created in a project with one pushed commit."""

import os
from pathlib import Path

from tests.project_states import files, git_settings, history, nested
from tests.project_states.base import STATES, State, commit

__all__ = ("STATES", "State", "commit", "contents", "files", "git_settings", "history", "nested")


def contents(directory: Path) -> dict[bytes, tuple[str, bytes]]:
    """All files below a directory with kind and bytes, without git's own and those named `ignored…`."""
    found: dict[bytes, tuple[str, bytes]] = {}
    for current, directories, plain in os.walk(os.fsencode(directory)):
        if b".git" in directories:
            directories.remove(b".git")
        for name in [*plain, *(name for name in directories if os.path.islink(os.path.join(current, name)))]:
            path = os.path.join(current, name)
            relative = os.path.relpath(path, os.fsencode(directory))
            if name.startswith(b"ignored") or name == b".git":
                continue
            if os.path.islink(path):
                found[relative] = ("link", os.readlink(path))
            else:
                mode = "executable" if os.stat(path).st_mode & 0o100 else "file"
                found[relative] = (mode, Path(os.fsdecode(path)).read_bytes())
    return found
