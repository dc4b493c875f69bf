"""A real Slurm on this machine: munge, a controller and several nodes, all below one scratch directory.

It does not touch `/etc/slurm`, the system's munge or another Slurm. Commands find it by `SLURM_CONF`, which
is in `env`.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.requirements import PROGRAMS, lack, need_programs

UP_S = 30.0
FREEZER = Path("/sys/fs/cgroup/freezer")  # where proctrack/cgroup keeps the processes of jobs
JOBS = 1000  # numbers for each Slurm

CONFIG = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
FirstJobId={first_job}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType={proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
InactiveLimit=0
MpiDefault=none
MailProg=/bin/true
{settings}
{gres_types}
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# Slurm waits 3 s before it schedules a batch job, unless told otherwise. `settings` may say something else.
DEFAULTS = {"SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1"}


@dataclass(frozen=True)
class SlurmNode:
    cpus: int = 4
    memory_mib: int = 4096
    gpus: Mapping[str, int] = field(default_factory=dict)  # kind to number: {"a100": 2}


class Slurm:
    """Needs root, as slurmd does. `settings` are more lines of slurm.conf."""

    def __init__(
        self, folder: Path, nodes: Mapping[str, SlurmNode], settings: Mapping[str, str] | None = None
    ) -> None:
        if os.geteuid() != 0:
            lack("Slurm's daemons need root")
        need_programs("munged", "slurmctld", "slurmd")
        self.folder = folder
        self.nodes = dict(nodes)
        self.env = {
            **os.environ,
            "PATH": PROGRAMS,
            "SLURM_CONF": str(folder / "slurm.conf"),
        }
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._write(settings or {})

    def start(self) -> None:
        self._start_munge()
        self.start_controller()
        for name in self.nodes:
            self.start_node(name)
        self._wait(lambda: set(self.states().values()) == {"idle"}, "its nodes are not idle")

    def start_controller(self) -> None:
        self._spawn("slurmctld", "slurmctld", "-D")
        self._wait(self._answers, "its controller does not answer")

    def start_node(self, name: str) -> None:
        self._spawn(name, "slurmd", "-D", "-N", name)

    def kill(self, name: str) -> None:
        """Kill `slurmctld` or a node's slurmd. What runs on the node goes on, under its slurmstepd."""
        self._end(name, signal.SIGKILL)

    def save(self, job: str) -> None:
        """Wait until the controller has written down what it knows of a job: a kill loses what is newer."""
        file = self.folder / "state/job_state"
        for comment in ("once", "again"):  # the first may have been under way before
            before = file.stat().st_ino
            self.run("scontrol", "update", f"JobId={job}", f"Comment={comment}")
            self._wait(lambda before=before: file.stat().st_ino != before, "its state is not saved")

    def stop(self) -> None:
        """End all jobs, then all daemons."""
        if "slurmctld" in self._running and self._answers():
            self.run("scancel", "--state=PENDING", check=False)
            self.run("scancel", "--full", "--signal=KILL", "--state=RUNNING", check=False)
            self._wait(lambda: not self.run("squeue", "-h", "-t", "R,CG"), "its jobs do not end")
        for name in reversed(list(self._running)):
            self._end(name, signal.SIGTERM)
        self._kill_leftovers()

    def run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def states(self) -> dict[str, str]:
        """The state of each node, as sinfo says it."""
        words = self.run("sinfo", "-h", "-N", "-o", "%N %t").split()
        return dict(zip(words[::2], words[1::2], strict=True))

    def _write(self, settings: Mapping[str, str]) -> None:
        for name in ("state", "munge", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True, mode=0o755)
        host = socket.gethostname().partition(".")[0]
        ports = _free_ports(1 + len(self.nodes))
        # Slurm names cgroups by node and job number; other tests have the same nodes, so numbers are apart.
        self._first_job = ports[0] * JOBS
        config = CONFIG.format(
            name=self.folder.name.lower(),
            host=host,
            ports=ports,
            first_job=self._first_job,
            folder=self.folder,
            proctrack=f"proctrack/{'cgroup' if _may_make_cgroups() else 'linuxproc'}",
            settings="\n".join(f"{key}={value}" for key, value in {**DEFAULTS, **settings}.items()),
            gres_types="GresTypes=gpu" if any(node.gpus for node in self.nodes.values()) else "",
            nodes="\n".join(
                _node_line(name, node, host, port)
                for (name, node), port in zip(self.nodes.items(), ports[1:], strict=True)
            ),
        )
        (self.folder / "slurm.conf").write_text(config)
        (self.folder / "gres.conf").write_text("".join(self._gpu_lines()))
        (self.folder / "cgroup.conf").write_text("CgroupMountpoint=/sys/fs/cgroup\n")

    def _gpu_lines(self) -> Iterator[str]:
        """Kinds are real to Slurm; the device files only have to exist, each under a name with its number."""
        for name, node in self.nodes.items():
            kinds = [kind for kind, count in node.gpus.items() for _ in range(count)]
            for index, kind in enumerate(kinds):
                device = self.folder / f"gpu-{name}-{index}"
                device.symlink_to("/dev/null")
                yield f"NodeName={name} Name=gpu Type={kind} File={device}\n"

    def _start_munge(self) -> None:
        munge = self.folder / "munge"
        (munge / "key").touch(mode=0o600)
        (munge / "key").write_bytes(os.urandom(128))
        files = [
            f"--{what}={munge / what.removesuffix('-file')}" for what in ("key-file", "pid-file", "seed-file")
        ]
        # The folder of a test may be open to others; what comes in is only from this machine.
        self._spawn(
            "munged", "munged", "--foreground", "--force", f"--socket={munge / 'socket'}",
            f"--log-file={munge / 'log'}", "--num-threads=4", *files,
        )  # fmt: skip
        self._wait((munge / "socket").exists, "munge does not come up")

    def _spawn(self, name: str, program: str, *arguments: str) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            self._running[name] = subprocess.Popen(
                [str(shutil.which(program, path=PROGRAMS)), *arguments],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def _end(self, name: str, number: signal.Signals) -> None:
        daemon = self._running.pop(name)
        daemon.send_signal(number)
        try:
            daemon.wait(20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _kill_leftovers(self) -> None:
        """Of jobs that a killed controller forgot."""
        for name in self.nodes:
            for job in FREEZER.glob(f"slurm_{name}/uid_*/job_*"):
                if self._first_job <= int(job.name.removeprefix("job_")) < self._first_job + JOBS:
                    for pid in [
                        pid for file in job.rglob("cgroup.procs") for pid in file.read_text().split()
                    ]:
                        with suppress(ProcessLookupError):
                            os.kill(int(pid), signal.SIGKILL)

    def _answers(self) -> bool:
        return "UP" in self.run("scontrol", "ping", check=False)

    def _wait(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + UP_S
        while not holds():
            assert time.monotonic() < deadline, f"Slurm: {otherwise}; {self._last_words()}"
            time.sleep(0.02)

    def _last_words(self) -> str:
        logs = [*self.folder.glob("*.log"), *self.folder.glob("*.out"), self.folder / "munge/log"]
        return "\n".join(f"{log.name}: {log.read_text()[-500:]}" for log in logs if log.exists())


@contextmanager
def running_slurm(
    folder: Path, nodes: Mapping[str, SlurmNode], settings: Mapping[str, str] | None = None
) -> Iterator[Slurm]:
    slurm = Slurm(folder, nodes, settings)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()


def _node_line(name: str, node: SlurmNode, host: str, port: int) -> str:
    gres = ",".join(f"gpu:{kind}:{count}" for kind, count in node.gpus.items())
    line = f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={node.cpus}"
    return f"{line} RealMemory={node.memory_mib} State=UNKNOWN" + (f" Gres={gres}" if gres else "")


def _may_make_cgroups() -> bool:
    """Whether Slurm can end what a job left behind; where it cannot, detached children survive `scancel`."""
    return FREEZER.is_dir() and os.access(FREEZER, os.W_OK)


def _free_ports(count: int) -> list[int]:
    """All at once, so that they differ."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
