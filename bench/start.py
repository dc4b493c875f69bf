"""How long the client takes to be there."""

import statistics
import subprocess
import sys

from bench.table import Row, ratio_row, seconds
from tests.e2e.cluster import PIT, Cluster

RUNS = 20


def measure(cluster: Cluster) -> list[Row]:
    return [
        _compare(cluster, "pit --version / import click", ["--version"], "click", 3.0),
        _compare(cluster, "pit status / import requests", ["status"], "requests", 2.5),
    ]


def _compare(cluster: Cluster, what: str, arguments: list[str], module: str, goal: float) -> Row:
    """Medians of interleaved runs, so that both see the same machine."""
    floor, measured = [], []
    for _ in range(RUNS):
        floor.append(_run(cluster, [sys.executable, "-c", f"import {module}"]))
        measured.append(_run(cluster, [str(PIT), *arguments]))
    return ratio_row(what, statistics.median(measured), statistics.median(floor), goal)


def _run(cluster: Cluster, command: list[str]) -> float:
    return seconds(
        lambda: subprocess.run(
            command, env=cluster.env, cwd=cluster.project.path, capture_output=True, check=True
        )
    )
