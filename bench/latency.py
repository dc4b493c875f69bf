"""From submission to the first line of the job's own output."""

from time import perf_counter

from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit, wait
from bench.table import Row, percentile, time_row
from pit.head.client import Head
from pit_protocol.messages.submission import Snapshot
from tests.support.clusters.local import Cluster


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    with connect(cluster) as head:
        code = snapshot(cluster, head)
        wait(head, submit(head, code, "true").number)  # warms the mirror
        times = [first_line(head, code) for _ in range(sizes.first_lines)]
    return [
        time_row("submit to first line, p50", percentile(times, 0.5), 0.5),
        time_row("submit to first line, p99", percentile(times, 0.99), 1.5),
    ]


def first_line(head: Head, code: Snapshot) -> float:
    """The seconds from a submission to the first line that a follower gets."""
    begun = perf_counter()
    number = submit(head, code, "echo here").number
    cursor = None
    while True:
        batch = head.log(number, {"cursor": cursor}, wait_s=20)
        if any(line.source == "worker 0" for line in batch.lines):
            taken = perf_counter() - begun
            wait(head, number)  # so that the next one starts on an idle machine
            return taken
        cursor = batch.cursor
