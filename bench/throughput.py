"""Many short jobs on one node, compared with starting the same programs directly."""

import subprocess

from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit, wait
from bench.table import Row, seconds
from tests.support.clusters.local import Cluster


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    jobs = sizes.short_jobs
    with connect(cluster) as head:
        code = snapshot(cluster, head)
        wait(head, submit(head, code, "true").number)

        def run_all() -> None:
            numbers = [submit(head, code, "true").number for _ in range(jobs)]
            outcomes = {wait(head, number).outcome for number in numbers}
            if outcomes != {"succeeded"}:
                raise RuntimeError(f"the jobs ended {outcomes}")

        pit_s = seconds(run_all)
    plain_s = seconds(lambda: [subprocess.run(["/bin/bash", "-c", "true"], check=True) for _ in range(jobs)])
    what = f"{jobs} jobs of `true`, end to end / fork + exec of bash"
    return [Row(what, f"{jobs / pit_s:.0f} jobs/s", f"{jobs / plain_s:.0f} /s", pit_s / plain_s)]
