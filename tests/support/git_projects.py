"""Run git, and unpack a snapshot as the head does."""

import os
import subprocess
from pathlib import Path

from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.scratch_repo import RAW_ATTRIBUTES
from pit_protocol.answers.snapshots import OfferAnswer


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


def receive(worktree: WorktreeSnapshot, place: Path, base: str | None) -> Path:
    """Unpack a snapshot as the head does, from the pack and the fetched base; return the directory."""
    bare, target = place / "received.git", place / "received"
    target.mkdir()
    git(place, "init", "-q", "--bare", str(bare))
    (bare / "info" / "attributes").write_text(RAW_ATTRIBUTES)
    if base:
        assert worktree.base
        git(bare, "fetch", "-q", "--depth=1", worktree.base.remote.url, base)
    answer = OfferAnswer(False, base)
    objects = worktree.objects(answer)
    if worktree.missing:
        worktree.drop_history()
        objects = worktree.objects(answer)
    if objects:
        if worktree.commit:
            (bare / "shallow").write_text(f"{worktree.commit[0]}\n")
        pack = worktree.pack(objects.items()).read_bytes()
        git(bare, "index-pack", "--stdin", "--fix-thin", "--strict", input=pack)
    env = {"GIT_WORK_TREE": str(target)}
    git(bare, "rev-list", "--objects", "--quiet", worktree.tree)
    git(bare, "read-tree", worktree.tree, env=env)
    git(bare, "checkout-index", "--all", env=env)
    return target


def trees_of(pack: bytes, place: Path) -> set[str]:
    """The hashes of all trees in a pack."""
    bare = place / "unpacked.git"
    git(place, "init", "-q", "--bare", str(bare))
    git(bare, "index-pack", "--stdin", "--fix-thin", input=pack)
    lines = git(bare, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    return {line.split()[0] for line in lines if " tree " in line}
