"""The work on Debian's Slurm: a controller and four nodes here, with settings for many short jobs."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers.peer import call_in_threads
from bench.table import seconds
from tests.support.servers.slurm import Slurm, SlurmNode, running_slurm

NODES = 4
POLL_S = 0.001  # between two looks at a file that is to appear
SETTINGS = {
    # https://slurm.schedmd.com/high_throughput.html
    "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1,"
    "default_queue_depth=10000,partition_job_depth=0,sched_max_job_start=0,bf_max_job_test=10000",
    "MaxJobCount": "100000",
    "MaxArraySize": "20001",
    "MinJobAge": "2",
}


class SlurmPeer:
    name = "Slurm"

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self._slurm = slurm
        self._folder = folder
        self._script = folder / "true.sh"
        self._script.write_text("#!/bin/sh\ntrue\n")
        self._files = 0

    def run_single_jobs(self, count: int, clients: int) -> None:
        call_in_threads(lambda _: self._sbatch(), count, clients)
        self._wait_until_empty()

    def run_array(self, count: int) -> None:
        self._sbatch(f"--array=0-{count - 1}")
        self._wait_until_empty()

    def submit_waiting(self, count: int, clients: int) -> float:
        taken = seconds(lambda: call_in_threads(lambda _: self._sbatch("--hold"), count, clients))
        self._run("scancel", "--user=root")
        self._wait_until_empty()
        return taken

    def first_line(self) -> float:
        self._files += 1
        output = self._folder / f"out-{self._files}"
        script = self._folder / "echo.sh"
        script.write_text("#!/bin/sh\necho here\n")

        def submit_and_wait() -> None:
            self._run("sbatch", f"--output={output}", str(script))
            while not (output.exists() and output.stat().st_size):
                time.sleep(POLL_S)

        taken = seconds(submit_and_wait)
        self._wait_until_empty()
        return taken

    def show_status(self) -> None:
        self._run("squeue")

    def fill_queue(self, count: int) -> None:
        # An array counts as one job until its elements start, so these are single ones.
        call_in_threads(lambda _: self._sbatch("--hold"), count, NODES)

    def large_array(self, count: int) -> tuple[float, float, float]:
        submitted = seconds(lambda: self._sbatch("--hold", f"--array=0-{count - 1}"))
        shown = seconds(self.show_status)

        def stop() -> None:
            self._run("scancel", "--user=root")
            self._wait_until_empty()

        return submitted, shown, seconds(stop)

    def _sbatch(self, *options: str) -> None:
        self._run("sbatch", "--output=/dev/null", *options, str(self._script))

    def _wait_until_empty(self) -> None:
        while self._run("squeue", "--noheader").strip():
            time.sleep(0.01)

    def _run(self, *words: str) -> str:
        done = subprocess.run(words, env=self._slurm.env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def running_slurm_peer(slots: int) -> Iterator[SlurmPeer]:
    nodes = {f"n{number}": SlurmNode(cpus=max(1, slots // NODES)) for number in range(NODES)}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        with running_slurm(folder / "slurm", nodes, SETTINGS) as slurm:
            yield SlurmPeer(slurm, folder)
