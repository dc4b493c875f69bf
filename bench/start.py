"""Start time of the client."""

import statistics
import subprocess
import sys

from bench.sizes import Sizes
from bench.table import Row, ratio_row, seconds
from tests.support.clusters.local import PIT, Cluster


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    return [
        _compare(cluster, sizes, "--version", "import click", 3.0),
        _compare(cluster, sizes, "status", "import requests", 2.5),
    ]


def _compare(cluster: Cluster, sizes: Sizes, argument: str, statement: str, goal: float) -> Row:
    """Medians of alternating runs, so that both run under the same conditions."""
    floor, measured = [], []
    for _ in range(sizes.client_starts):
        floor.append(_run(cluster, [sys.executable, "-c", statement]))
        measured.append(_run(cluster, [str(PIT), argument]))
    what = f"pit {argument} / {statement}"
    return ratio_row(what, statistics.median(measured), statistics.median(floor), goal)


def _run(cluster: Cluster, command: list[str]) -> float:
    return seconds(
        lambda: subprocess.run(
            command, env=cluster.env, cwd=cluster.project.path, capture_output=True, check=True
        )
    )
