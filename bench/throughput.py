"""Many short jobs on one node, next to plainly starting the same programs."""

import subprocess

from bench.submitting import connect, snapshot, submit, wait
from bench.table import Row, seconds
from tests.e2e.cluster import Cluster

JOBS = 200


def measure(cluster: Cluster) -> list[Row]:
    code = snapshot(cluster)
    with connect(cluster) as head:
        wait(head, submit(head, code, "true")["number"])

        def run_all() -> None:
            numbers = [submit(head, code, "true")["number"] for _ in range(JOBS)]
            outcomes = {wait(head, number)["outcome"] for number in numbers}
            if outcomes != {"succeeded"}:
                raise RuntimeError(f"the jobs ended {outcomes}")

        pit_s = seconds(run_all)
    plain_s = seconds(lambda: [subprocess.run(["/bin/bash", "-c", "true"], check=True) for _ in range(JOBS)])
    what = f"{JOBS} jobs of `true`, end to end / fork + exec of bash"
    return [Row(what, f"{JOBS / pit_s:.0f} jobs/s", f"{JOBS / plain_s:.0f} /s", pit_s / plain_s)]
