"""Snapshots next to what git itself needs for the same files."""

import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import requests

from bench.table import Row, ratio_row, seconds
from pit.connection import Connection
from pit.head import Head
from pit.project import Project
from pit.snapshot import Shot
from pit.submission import Wish, bring, submit
from tests.e2e.cluster import Cluster

FILES = 10_000
BINARIES, BINARY_BYTES = 10, 10 * 1024 * 1024
ROUNDS = 15
MOST_BYTES = 10_000


def measure(cluster: Cluster) -> list[Row]:
    project = cluster.project
    for number in range(FILES):
        path = project.path / f"d{number // 100}" / f"f{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"print({number})\n" * 30)
    project.git("add", ".")
    project.git("commit", "--quiet", "-m", "many")
    project.git("push", "--quiet", "origin", "HEAD:main")
    return [_snapshot(cluster), *_ready(cluster), _binaries(cluster)]


def _snapshot(cluster: Cluster) -> Row:
    """In turns with `git status`, so that both see the same machine."""
    ours, floor = [], []
    for _ in range(ROUNDS):
        floor.append(seconds(lambda: _git(cluster, "status", "--porcelain")))
        with tempfile.TemporaryDirectory() as place:
            ours.append(seconds(lambda: Shot(Project.find(cluster.project.path), Path(place))))
    what = f"snapshot of {FILES:,} unchanged files / git status, p50"
    return ratio_row(what, statistics.median(ours), statistics.median(floor), 1.5)


def _ready(cluster: Cluster) -> list[Row]:
    """From acceptance to a tree that is ready, once the head has the commit; and what travels for it."""
    cluster.wait(cluster.run("true"))
    sent, ours, floor = [], [], []
    mirror = Path(cluster.home).parent / "mirror.git"
    _git(cluster, "clone", "-q", "--bare", ".", str(mirror))
    for number in range(5):
        with Head(_connection(cluster)) as head:
            counted = _counting(head)
            with tempfile.TemporaryDirectory() as place:
                snapshot = bring(head, Shot(Project.find(cluster.project.path), Path(place)))
                record = submit(head, Wish("bench", "[]", "true"), snapshot)
        sent.append(sum(counted))
        events = {event["event"]: event["at"] for event in cluster.wait(record["number"])["events"]}
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


def _binaries(cluster: Cluster) -> Row:
    """New binaries until the head has them, next to `git bundle` of the same, committed."""
    for number in range(BINARIES):
        (cluster.project.path / f"weights-{number}.bin").write_bytes(os.urandom(BINARY_BYTES))
    ours = seconds(lambda: cluster.run("true"))
    cluster.project.git("add", ".")
    cluster.project.git("commit", "--quiet", "-m", "binaries")
    floor = seconds(
        lambda: _git(cluster, "bundle", "create", "-q", str(cluster.home.parent / "b.bundle"), "HEAD~1..HEAD")
    )
    return ratio_row("100 MB of new binaries sent / git bundle", ours, floor, 2.0)


def _git(cluster: Cluster, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=cluster.project.path, check=True, capture_output=True)


def _connection(cluster: Cluster) -> Connection:
    url = (cluster.home / "connect.txt").read_text().split()[0]
    return Connection(url, token=(cluster.home / "user.token").read_text().strip())


def _counting(head: Head) -> list[int]:
    counted: list[int] = []

    def count(response: requests.Response, *_: Any, **__: Any) -> None:
        asked = len(response.request.body or b"") + sum(map(len, response.request.headers.values()))
        counted.append(asked + len(response.content) + sum(map(len, response.headers.values())))

    head._session.hooks["response"].append(count)
    return counted
