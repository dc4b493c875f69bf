"""Real git for tests."""

import os
import subprocess
from pathlib import Path


def git(cwd: Path, *arguments: str, input: bytes | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        input=input,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout.decode().strip()


def rebuild(bare: Path, commit: str | None, pack: bytes | None, diff: bytes | None) -> str:
    """The tree that a head gets from a snapshot, by its hash."""
    env = {"GIT_INDEX_FILE": str(bare / "scratch-index")}
    if pack is not None:
        git(bare, "index-pack", "--stdin", input=pack)
    if commit is None:
        git(bare, "read-tree", "--empty", env=env)
    else:
        git(bare, "read-tree", commit, env=env)
    if diff is not None:
        git(bare, "apply", "--cached", "--whitespace=nowarn", "-", input=diff, env=env)
    return git(bare, "write-tree", env=env)
