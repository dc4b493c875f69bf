"""A head on this machine with a site: a real Slurm, and the agent beside it."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.clusters.local import Cluster, Project, eventually, running
from tests.support.servers.slurm import Slurm, SlurmNode, running_slurm

WORKER = Path(sys.executable).with_name("pit-worker")


class SiteCluster(Cluster):
    """A cluster whose site is called hpc; own nodes take no part unless a test wants them to."""

    def __init__(self, place: Path, project: Project, slurm: Slurm) -> None:
        super().__init__(place, project)
        self.slurm = slurm
        self.config = place / "agent"
        self._log = place / "agent.log"
        self._agent: subprocess.Popen[bytes] | None = None

    def add_site(self, **properties: str) -> None:
        words = [f"{name}={value}" for name, value in {"kind": "slurm", **properties}.items()]
        added = self.json("add", "site:hpc", *words)
        url, *pins = (self.home / "connect.txt").read_text().split()[:1]
        self._command = ["site", url, *pins, "--config", str(self.config)]
        self.start_agent(PIT_WORKER_JOIN_CODE=added["join_code"])
        eventually(lambda: self.site()["state"] == "online")

    def start_agent(self, **env: str) -> None:
        with self._log.open("ab") as log:
            self._agent = subprocess.Popen(
                [str(WORKER), *self._command],
                env={**self.slurm.env, "HOME": self.env["HOME"], **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill_agent(self) -> None:
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait()
            self._agent = None

    def await_agent_end(self) -> int:
        """Wait until the agent has died by itself."""
        assert self._agent is not None
        code = self._agent.wait(60)
        self._agent = None
        return code

    def ensure_agent(self) -> None:
        if self._agent is None or self._agent.poll() is not None:
            self.start_agent()

    def await_idle(self) -> None:
        """Wait until Slurm has no job, and the head no allocation."""
        eventually(lambda: not self.slurm.run("squeue", "-h") and not self.site()["allocations"])

    def agent_log(self) -> str:
        return self._log.read_text()

    def cluster_id(self) -> str:
        return (self.agent_log().partition("of cluster ")[2]).split()[0]

    def site(self) -> Any:
        return self.get("/sites/hpc")

    def queue(self, *fields: str) -> list[list[str]]:
        """What Slurm lists, also of jobs that have just ended."""
        lines = self.slurm.run("squeue", "-h", "-t", "all", "-o", "|".join(fields)).splitlines()
        return [line.split("|") for line in lines]

    def await_state(self, number: int, state: str) -> Any:
        """Wait until a job is in a state; it must not end before."""

        def look() -> Any:
            record = self.record(number)
            assert record["state"] in (state, "preparing", "waiting", "starting", "running"), record
            return record if record["state"] == state else None

        return eventually(look)

    def await_end(self, number: int) -> Any:
        return eventually(lambda: record if (record := self.record(number))["state"] == "ended" else None)

    def pilots(self) -> list[int]:
        """Process ids of the pilots, which have the directory of their allocation as the last argument."""
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = file.read_bytes().decode(errors="replace").split("\0")
                if (
                    words[-3:-2] == ["pilot"]
                    and words[-2].startswith(str(self.config))
                    and "srun" not in words[0]
                ):
                    found.append(int(file.parent.name))
        return found


@contextmanager
def running_site(
    place: Path, nodes: Mapping[str, SlurmNode], settings: Mapping[str, str] | None = None
) -> Iterator[SiteCluster]:
    (place / "slurm").mkdir()
    with running_slurm(place / "slurm", nodes, settings) as slurm:
        cluster = SiteCluster(place, Project(place), slurm)
        try:
            with running(cluster):
                yield cluster
        finally:
            cluster.kill_agent()
