"""`make bench`: run all benchmarks on temporary clusters on this machine, and print one table."""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import (
    attacks,
    containers,
    crowd,
    data,
    head,
    lab,
    latency,
    queue,
    scheduler,
    snapshots,
    start,
    throughput,
    web,
    worker,
)
from bench.sizes import SMOKE, Sizes
from bench.table import Row, render
from tests.support.clusters.local import Cluster, Project, running

Measure = Callable[[Sizes], list[Row]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="only check that every benchmark runs")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(MEASUREMENTS)}; default: all"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - MEASUREMENTS.keys():
        parser.error(f"unknown benchmark: {', '.join(sorted(unknown))}")
    sizes = SMOKE if arguments.smoke else Sizes()
    rows: list[Row] = []
    for name in arguments.names or MEASUREMENTS:
        print(f"{name} ...", flush=True)
        rows += MEASUREMENTS[name](sizes)
    print(render(rows))
    if arguments.smoke:
        print("every benchmark runs; at these sizes the figures mean nothing")


def _on_cluster(measure: Callable[[Cluster, Sizes], list[Row]], sizes: Sizes) -> list[Row]:
    """Measure on a new, empty cluster."""
    with (
        tempfile.TemporaryDirectory() as place,
        running(Cluster(Path(place), Project(Path(place)))) as cluster,
    ):
        return measure(cluster, sizes)


MEASUREMENTS: dict[str, Measure] = {
    "start": partial(_on_cluster, start.measure),
    "latency": partial(_on_cluster, latency.measure),
    "throughput": partial(_on_cluster, throughput.measure),
    "worker": worker.measure,
    "head": head.measure,
    "scheduler": scheduler.measure,
    "queue": partial(_on_cluster, queue.measure),
    "crowd": partial(_on_cluster, crowd.measure),
    "attacks": partial(_on_cluster, attacks.measure),
    "web": partial(_on_cluster, web.measure),
    "lab": partial(_on_cluster, lab.measure),
    "snapshots": partial(_on_cluster, snapshots.measure),
    "containers": containers.measure,
    "data": data.measure,
}


if __name__ == "__main__":
    main()
