"""A bare mirror per user and remote: fetched once, shared by all of that user's jobs."""

import tempfile
import threading
from collections import defaultdict
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.submission import Snapshot
from pit_server.store.git import Git, GitFailed

_locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)


class Mirror:
    def __init__(self, git: Git) -> None:
        self._git = git

    def check_out(self, snapshot: Snapshot, diff: Path | None, pack: Path | None, target: Path) -> None:
        """Write the snapshot's exact tree into the empty directory `target`, or raise a Problem."""
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": f"{scratch}/index"}
            with _locks[self._git.directory]:
                self._create()
                if not self._has_all(snapshot):
                    self._build_tree(snapshot, diff, pack, index)
            self._git.run("read-tree", snapshot.tree, env=index)
            self._git.run("checkout-index", "--all", env={**index, "GIT_WORK_TREE": str(target)})

    def reaches(self, remote: str, commit: str) -> bool:
        """Whether the commit is here, or the remote answers, so that it can be fetched from there."""
        if not (self._git.directory / "HEAD").exists():
            # Not at other times: who fetches holds the lock for long.
            with _locks[self._git.directory]:
                self._create()
        if self._git.has(f"{commit}^{{tree}}"):
            return True
        try:
            self._git.run("ls-remote", "--quiet", "--", remote, "HEAD")
        except GitFailed:
            return False
        return True

    def _has_all(self, snapshot: Snapshot) -> bool:
        """Whether the tree is here, and the commit that it is said to come from."""
        commit = [f"{snapshot.commit}^{{tree}}"] if snapshot.commit else []
        return self._git.has(snapshot.tree, *commit)

    def _create(self) -> None:
        if (self._git.directory / "HEAD").exists():
            return
        self._git.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._git.run("init", "--quiet", "--bare")

    def _build_tree(
        self, snapshot: Snapshot, diff: Path | None, pack: Path | None, index: dict[str, str]
    ) -> None:
        """Put the tree's objects into the mirror: the commit's, changed by the diff."""
        if pack:
            self._git.run("index-pack", "--stdin", "--fix-thin", stdin=pack)
        if snapshot.commit and not self._git.has(f"{snapshot.commit}^{{tree}}"):
            self._fetch(snapshot)
        self._git.run("read-tree", snapshot.commit or "--empty", env=index)
        if diff:
            try:
                self._git.run("apply", "--cached", "--whitespace=nowarn", "-", stdin=diff, env=index)
            except GitFailed as error:
                raise Problem(
                    "diff_does_not_apply",
                    f"the diff does not apply to commit {_short(snapshot.commit)}: {_cause(error)}",
                    "run again from a clean clone; if it stays, commit and push",
                ) from error
        built = self._git.run("write-tree", env=index)
        if built != snapshot.tree:
            raise Problem(
                "tree_differs",
                f"the tree came out as {_short(built)}, not {_short(snapshot.tree)} as in your project",
            )

    def _fetch(self, snapshot: Snapshot) -> None:
        commit, remote = snapshot.commit, snapshot.remote
        if not remote:
            raise Problem("no_objects", f"commit {_short(commit)} came neither with a remote nor in the pack")
        self._git.say(f"fetching {_short(commit)} from {remote}")
        try:
            self._git.run(
                "fetch", "--quiet", "--no-tags", "--depth=1", "--", remote, f"{commit}:refs/pit/{commit}"
            )
        except GitFailed as error:
            if "not our ref" not in str(error) and "unadvertised object" not in str(error):
                raise _unreachable(remote, error) from error
            self._fetch_branches(remote)
        if not self._git.has(f"{commit}^{{tree}}"):
            raise Problem(
                "commit_vanished",
                f"{remote} no longer has commit {commit}",
                "push it again, or send the code along with `pit run --bundle`",
            )

    def _fetch_branches(self, remote: str) -> None:
        """For servers that give only what a branch leads to."""
        try:
            self._git.run("fetch", "--quiet", "--no-tags", "--", remote, "+refs/heads/*:refs/remotes/pit/*")
        except GitFailed as error:
            raise _unreachable(remote, error) from error


def _unreachable(remote: str, error: GitFailed) -> Problem:
    return Problem(
        "remote_unreachable",
        f"the head cannot fetch from {remote}: {_cause(error)}",
        "send the code along with `pit run --bundle`",
    )


def _cause(error: GitFailed) -> str:
    """The first thing that git complains of; what follows is mostly its consequence."""
    lines = str(error).strip().splitlines()
    # ssh says before git what was wrong, in a line of its own.
    said = [line for line in lines if line.startswith(("error: ", "fatal: ", "ssh: "))]
    return (said or lines)[0].removeprefix("fatal: ").removeprefix("error: ").rstrip(".")


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "(none)"
