"""Real git repositories, and the snapshot a client would make of them."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.clusters.head import Person, a_snapshot


def git(cwd: Path, *arguments: str, **env: str) -> bytes:
    clean = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ["-c", "user.name=anna", "-c", "user.email=anna@lab"]
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=cwd,
        env={**os.environ, **clean, **env},
        stdout=subprocess.PIPE,
        check=True,
    )
    return done.stdout


@dataclass
class Project:
    """A checkout with a bare remote beside it."""

    path: Path
    remote: Path

    def commit(self, **files: str | bytes) -> str:
        for name, body in files.items():
            self.write(name, body)
        git(self.path, "add", "--all", "--force")
        git(self.path, "commit", "--quiet", "--allow-empty", "-m", "work")
        git(self.path, "push", "--quiet", "--force", "origin", "HEAD:main")
        return git(self.path, "rev-parse", "HEAD").decode().strip()

    def write(self, name: str, body: str | bytes) -> Path:
        path = self.path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body if isinstance(body, bytes) else body.encode())
        return path

    def tree(self) -> str:
        """The tree hash of the work tree, including uncommitted changes."""
        index = {"GIT_INDEX_FILE": str(self.path.parent / "scratch-index")}
        git(self.path, "read-tree", "--empty", **index)
        git(self.path, "-c", "core.autocrlf=false", "add", "--all", "--force", **index)
        return git(self.path, "write-tree", **index).decode().strip()

    def head(self) -> str:
        return git(self.path, "rev-parse", "HEAD").decode().strip()

    def snapshot(self, person: Person, *, whole: bool = False, **fields: Any) -> dict[str, Any]:
        """Submit with the remote's commit as base and the rest uploaded; with `whole`, upload everything."""
        tree, commit = self.tree(), self.head()
        committed = git(self.path, "rev-parse", "HEAD^{tree}").decode().strip()
        wanted = [commit, tree, committed]
        body = self.pack(*wanted) if whole else self.pack(*wanted, without=commit)
        facts = {
            "tree": tree,
            "commit": commit,
            "committed": committed,
            "base": None if whole else commit,
            "remote": str(self.remote),
            "pack": person.upload(body) if body else None,
        }
        return a_snapshot(**{**facts, **fields})

    def objects(self, *names: str) -> list[str]:
        """All objects of these trees and commits, without history."""
        found = git(self.path, "rev-list", "--objects", "--no-walk", *names).decode(errors="replace")
        return [line.split()[0] for line in found.splitlines()]

    def pack(self, *names: str, without: str = "") -> bytes:
        """A pack of the objects of these, except those of the commit `without`; may be empty."""
        known = set(self.objects(without)) if without else set()
        return self.pack_of([name for name in self.objects(*(names or ("HEAD",))) if name not in known])

    def pack_of(self, names: list[str]) -> bytes:
        if not names:
            return b""
        done = subprocess.run(
            ["git", "pack-objects", "--stdout", "-q"],
            cwd=self.path,
            input="".join(f"{name}\n" for name in names).encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
        return done.stdout


def a_project(folder: Path) -> Project:
    remote, path = folder / "remote.git", folder / "checkout"
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--bare", str(remote))
    git(folder, "init", "--quiet", "-b", "main", str(path))
    git(path, "remote", "add", "origin", str(remote))
    return Project(path, remote)


def listing(folder: Path) -> dict[str, tuple[str, str]]:
    """Every file below, with its kind and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_file():
            kind = "program" if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else "file"
            found[name] = (kind, hashlib.sha256(path.read_bytes()).hexdigest())
    return {name: found[name] for name in found if not name.startswith(".git/")}
