"""Slurm by its four commands: sbatch, squeue, scancel and, for the doctor, scontrol.

`--json` and `sacct` are not used: the shape of the first changes between releases, the second is often off.
"""

import os
import pwd
import re
import shlex
import subprocess
from collections.abc import Sequence
from datetime import datetime
from math import ceil
from pathlib import Path

from pit_protocol.messages.site import AllocationState, SeenAllocation, Wish
from pit_worker.sites.base import SiteError, SiteRefusal

COMMAND_S = 60.0
FIELDS = ("%i", "%j", "%T", "%r", "%S", "%e", "%N")  # id, name, state, reason, start, end, nodes
SEPARATOR = "\x1f"  # in no field
OUTPUT = "output.txt"
# Of the agent's environment, for Slurm's commands and for the pilots. The rest is nobody's business there.
KEPT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "LD_LIBRARY_PATH", "SLURM_CONF", "MUNGE_SOCKET"})
PENDING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
# What sbatch says when the controller, not the request, is the cause.
TRANSIENT = re.compile(
    r"unable to contact|timed out|temporarily|connection refused|zero bytes|communication|slurm_persist|"
    r"unable to establish|protocol authentication|munge|try again|queue is full|limit reached",
    re.IGNORECASE,
)


class Slurm:
    """Jobs of Slurm as allocations; each runs one pilot on each of its nodes."""

    def __init__(self, pilot: Sequence[str]) -> None:
        self._pilot = list(pilot)  # the words that start one

    def list_allocations(self, prefix: str) -> list[SeenAllocation]:
        account = pwd.getpwuid(os.geteuid()).pw_name
        form = SEPARATOR.join(FIELDS)
        found = _run(["squeue", "-h", "-t", "all", "-u", account, "-o", form])
        rows = [line.split(SEPARATOR) for line in found.splitlines() if line.strip()]
        return [read_row(row) for row in rows if len(row) == len(FIELDS) and row[1].startswith(prefix)]

    def submit(self, wish: Wish, folder: Path) -> None:
        options, script = sbatch_options(wish, folder), batch_script(wish, self._pilot, folder)
        # It refuses what the cluster could never give, before the job is in the queue.
        _submit(["sbatch", "--test-only", *options], script)
        _submit(["sbatch", "--parsable", *options], script)

    def cancel(self, allocation: SeenAllocation) -> None:
        _run(["scancel", allocation.id])


def sbatch_options(wish: Wish, folder: Path) -> list[str]:
    """The arguments of sbatch for a wish."""
    words = [
        f"--job-name={wish.name}",
        # Never two at a time, even if one is asked for twice.
        "--dependency=singleton",
        "--no-requeue",
        f"--nodes={wish.nodes}",
        f"--ntasks={wish.nodes}",
        "--ntasks-per-node=1",
        f"--cpus-per-task={wish.cores}",
        f"--time={max(1, ceil(wish.time_s / 60))}",
        f"--signal=TERM@{ceil(wish.notice_s)}",
        f"--output={folder / OUTPUT}",
        "--open-mode=append",
        *(f"--{name}={value}" for name, value in sorted(wish.options.items())),
    ]
    if wish.memory_mib:
        words.append(f"--mem={wish.memory_mib}M")
    if wish.gpus:
        gpus = (f"gpu:{gpu.kind}:{gpu.count}" if gpu.kind else f"gpu:{gpu.count}" for gpu in wish.gpus)
        words.append(f"--gres={','.join(gpus)}")
    return words


def batch_script(wish: Wish, pilot: Sequence[str], folder: Path) -> str:
    """The script of an allocation: a pilot on each node, which all end with the first that fails."""
    srun = f"srun --nodes={wish.nodes} --ntasks={wish.nodes} --overlap --kill-on-bad-exit=1 --export=ALL"
    command = shlex.join([*pilot, str(folder)])
    return f"#!/bin/sh\nexec {srun} {command}\n"


def read_row(row: Sequence[str]) -> SeenAllocation:
    """A line of squeue."""
    number, name, word, reason, start, end, hosts = row
    state = AllocationState.ENDED
    if word in PENDING:
        state = AllocationState.PENDING
    elif word in RUNNING:
        state = AllocationState.RUNNING
    said = "" if reason in ("None", "N/A") else reason
    is_pending = state is AllocationState.PENDING
    return SeenAllocation(
        name=name,
        id=number,
        state=state,
        word=word,
        reason=said,
        starts_at=_to_minute(_moment(start)) if is_pending else None,
        ends_at=None if is_pending else _moment(end),
        hosts="" if is_pending else hosts,
    )


def proctrack() -> str:
    """The plugin by which Slurm knows what belongs to a job; raises SiteError."""
    config = _run(["scontrol", "show", "config"])
    match = re.search(r"^ProctrackType\s*=\s*(\S+)", config, re.MULTILINE)
    return match[1] if match else ""


def _submit(command: list[str], script: str) -> None:
    try:
        _run(command, script)
    except SiteError as error:
        if TRANSIENT.search(str(error)):
            raise
        raise SiteRefusal(str(error)) from error


def _run(command: list[str], text: str = "") -> str:
    env = {name: value for name, value in os.environ.items() if name in KEPT}
    if command[0] != "sbatch":  # whose environment the job gets
        # Times are printed in the zone of the caller, so the zone must be known.
        env |= {"TZ": "UTC0", "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace",
            timeout=COMMAND_S, env=env, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SiteError(f"{command[0]}: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise SiteError("; ".join(lines[-2:]) or f"{command[0]} ended with exit code {done.returncode}")
    return done.stdout


def _to_minute(at: float | None) -> float | None:
    """Slurm estimates anew all the time; smaller changes are no news."""
    return None if at is None else ceil(at / 60) * 60.0


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(f"{text}+00:00").timestamp()
    except ValueError:
        return None
