"""The programs that write the output of containers to files, one per container; they outlive the worker."""

import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from pit_protocol.system.procfs import read_stat
from pit_worker.runtime.base import output_writer
from pit_worker.spool.entry import Entry, Key

SCRIPT = Path(__file__).with_name("output_writer.sh")
FINISH_S = 20.0  # how long writing the rest of the pipe may take after the container has ended


class OutputWriters:
    """The output writers that this worker has started; any thread may call."""

    def __init__(self) -> None:
        self._children: dict[Key, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def claim(self, entry: Entry) -> bool:
        """Let the command start, by reading its output; False if it must never start."""
        child = subprocess.Popen(
            ["/bin/sh", str(SCRIPT), str(entry.path), *output_writer(entry)],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert child.stdout  # noqa: S101
        with child.stdout as answer:
            has_claim = answer.readline() == b"claimed\n"
        if not has_claim:
            child.wait()
            return False
        with self._lock:
            self._children[entry.key] = child
        return True

    def finish(self, entry: Entry) -> None:
        """Wait until all output is in the file."""
        deadline = time.monotonic() + FINISH_S
        while _is_writing(entry) and time.monotonic() < deadline:
            # If the container wrote nothing, the output writer still waits for the pipe to be opened.
            with suppress(OSError):
                os.close(os.open(entry.pipe, os.O_WRONLY | os.O_NONBLOCK))
            time.sleep(0.002)
        self.reap(entry)

    def reap(self, entry: Entry) -> None:
        with self._lock:
            child = self._children.get(entry.key)
            if child and child.poll() is not None:
                del self._children[entry.key]


def _is_writing(entry: Entry) -> bool:
    known = entry.supervisor()
    stat = read_stat(known[0]) if known else None
    return stat is not None and not stat.has_ended and stat[:2] == known
