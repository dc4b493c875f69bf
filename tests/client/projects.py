"""Real git for tests."""

import os
import subprocess
from pathlib import Path

from pit.scratch import RAW
from pit.snapshot import Shot
from pit_protocol.submission import Demand


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


def receive(shot: Shot, place: Path, base: str | None) -> Path:
    """What a head makes of a shot: a directory, from the pack and the base that it has fetched."""
    bare, target = place / "received.git", place / "received"
    target.mkdir()
    git(place, "init", "-q", "--bare", str(bare))
    (bare / "info" / "attributes").write_text(RAW)
    if base:
        assert shot.base
        git(bare, "fetch", "-q", "--depth=1", shot.base.remote.url, base)
    demand = Demand(False, base)
    objects = shot.objects(demand)
    if shot.missing:
        shot.drop_history()
        objects = shot.objects(demand)
    if objects:
        if shot.commit:
            (bare / "shallow").write_text(f"{shot.commit[0]}\n")
        pack = shot.pack(objects.items()).read_bytes()
        git(bare, "index-pack", "--stdin", "--fix-thin", "--strict", input=pack)
    env = {"GIT_WORK_TREE": str(target)}
    git(bare, "rev-list", "--objects", "--quiet", shot.tree)
    git(bare, "read-tree", shot.tree, env=env)
    git(bare, "checkout-index", "--all", env=env)
    return target


def trees_of(pack: bytes, place: Path) -> set[str]:
    """The hashes of all trees in a pack."""
    bare = place / "unpacked.git"
    git(place, "init", "-q", "--bare", str(bare))
    git(bare, "index-pack", "--stdin", "--fix-thin", input=pack)
    lines = git(bare, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    return {line.split()[0] for line in lines if " tree " in line}
