"""`make bench`: all measurements on a scratch cluster of this machine, as one table."""

import tempfile
from pathlib import Path

from bench import containers, data, latency, queue, snapshots, start, throughput
from bench.table import render
from tests.e2e.cluster import Cluster, Project, running


def main() -> None:
    rows = []
    for module in (start, latency, throughput, queue, snapshots):
        # A cluster each, so that none measures what another left behind.
        with (
            tempfile.TemporaryDirectory() as place,
            running(Cluster(Path(place), Project(Path(place)))) as cluster,
        ):
            rows += module.measure(cluster)
    rows += containers.measure()
    rows += data.measure()
    print(render(rows))


if __name__ == "__main__":
    main()
