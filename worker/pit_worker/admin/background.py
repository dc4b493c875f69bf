"""The worker in the background, for machines without systemd: it runs until the machine restarts."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from pit_protocol.atomic_file import write_atomic
from pit_protocol.system.procfs import read_stat
from pit_worker.admin.install import SERVICE
from pit_worker.settings import SettingError, Settings

PID_FILE, LOG_FILE = "worker.pid", "worker.log"
END_S = 20.0


def start(config: Path, settings: Settings) -> Path:
    """Start the worker, after the end of one that was started so before; returns its log."""
    place = settings.spool.parent
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        _end_former(place / PID_FILE)
        with (place / LOG_FILE).open("ab") as log:
            worker = subprocess.Popen(
                [*SERVICE.command, "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        stat = read_stat(worker.pid)
        write_atomic(place / PID_FILE, f"{worker.pid} {stat.start_time if stat else 0}\n")
    except OSError as error:
        raise SettingError(f"the worker cannot be started: {error}") from error
    return place / LOG_FILE


def _end_former(file: Path) -> None:
    """End a worker that an earlier call has started; its processes go on, and the next one adopts them."""
    try:
        pid, started = map(int, file.read_text().split())
    except (OSError, ValueError):
        return
    deadline = time.monotonic() + END_S
    # A process with another start time has only got the number.
    while (stat := read_stat(pid)) and stat.start_time == started and not stat.has_ended:
        if time.monotonic() > deadline:
            raise SettingError(f"the worker with process id {pid} does not end")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.1)
