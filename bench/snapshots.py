"""Snapshots, compared with git on the same files."""

import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import requests

from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit
from bench.table import Row, decimal_bytes, ratio_row, seconds
from pit.head.client import Head
from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.repository import Repository
from tests.support.clusters.local import Cluster

MOST_BYTES = 10_000


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    project = cluster.project
    for number in range(sizes.snapshot_files):
        path = project.path / f"d{number // 100}" / f"f{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"print({number})\n" * 30)
    project.git("add", ".")
    project.git("commit", "--quiet", "-m", "many")
    project.git("push", "--quiet", "origin", "HEAD:main")
    return [_snapshot(cluster, sizes), *_ready(cluster, sizes), _binaries(cluster, sizes)]


def _snapshot(cluster: Cluster, sizes: Sizes) -> Row:
    """Alternate with `git status`, so that both run under the same conditions."""
    ours, floor = [], []
    for _ in range(sizes.snapshots):
        floor.append(seconds(lambda: _git(cluster, "status", "--porcelain")))
        with tempfile.TemporaryDirectory() as place:
            ours.append(seconds(lambda: WorktreeSnapshot(Repository.find(cluster.project.path), Path(place))))
    what = f"snapshot of {sizes.snapshot_files:,} unchanged files / git status, p50"
    return ratio_row(what, statistics.median(ours), statistics.median(floor), 1.5)


def _ready(cluster: Cluster, sizes: Sizes) -> list[Row]:
    """Time from acceptance to a prepared tree when the head has the commit, and bytes sent."""
    cluster.wait(cluster.run("true"))
    sent, ours, floor = [], [], []
    mirror = Path(cluster.home).parent / "mirror.git"
    _git(cluster, "clone", "-q", "--bare", ".", str(mirror))
    for number in range(sizes.ready_trees):
        with connect(cluster) as head:
            counted = _counting(head)
            record = submit(head, snapshot(cluster, head), "true")
        sent.append(sum(counted))
        events = {event["event"]: event["at"] for event in cluster.wait(record.number)["events"]}
        ours.append(events["prepared"] - events["accepted"])
        add = (
            f"--git-dir={mirror}",
            "worktree",
            "add",
            "-q",
            "--detach",
            str(mirror.with_name(f"tree-{number}")),
        )
        floor.append(seconds(lambda add=add: _git(cluster, *add)))  # type: ignore[misc]
    most = max(sent)
    return [
        ratio_row(
            "tree ready on the head / git worktree add, p50",
            statistics.median(ours),
            statistics.median(floor),
            2.0,
        ),
        Row(
            "second run of a commit: bytes on the wire",
            f"{most:,}",
            goal=f"< {MOST_BYTES:,}",
            is_met=most < MOST_BYTES,
        ),
    ]


def _binaries(cluster: Cluster, sizes: Sizes) -> Row:
    """Time to send new binaries, compared with `git bundle` of the same files."""
    for number in range(sizes.binaries):
        (cluster.project.path / f"weights-{number}.bin").write_bytes(os.urandom(sizes.binary_bytes))
    ours = seconds(lambda: cluster.run("true"))
    cluster.project.git("add", ".")
    cluster.project.git("commit", "--quiet", "-m", "binaries")
    floor = seconds(
        lambda: _git(cluster, "bundle", "create", "-q", str(cluster.home.parent / "b.bundle"), "HEAD~1..HEAD")
    )
    size = decimal_bytes(sizes.binaries * sizes.binary_bytes)
    return ratio_row(f"{size} of new binaries sent / git bundle", ours, floor, 2.0)


def _git(cluster: Cluster, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=cluster.project.path, check=True, capture_output=True)


def _counting(head: Head) -> list[int]:
    counted: list[int] = []

    def count(response: requests.Response, *_: Any, **__: Any) -> None:
        asked = len(response.request.body or b"") + sum(map(len, response.request.headers.values()))
        counted.append(asked + len(response.content) + sum(map(len, response.headers.values())))

    head._session.hooks["response"].append(count)
    return counted
