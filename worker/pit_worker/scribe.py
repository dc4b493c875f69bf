"""Who writes the output of containers down: a program per container that outlives the worker."""

import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

from pit_worker.entry import Entry, Key, read_stat

SCRIBE = Path(__file__).with_name("scribe.sh")
FINISH_S = 20.0  # how long it may take to write down what is in the pipe when all is over


class Scribes:
    """The scribes that this worker has started; any thread may ask."""

    def __init__(self) -> None:
        self._children: dict[Key, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def claim(self, entry: Entry) -> bool:
        """Let the command begin, by reading its output; False if it never may."""
        child = subprocess.Popen(
            ["/bin/sh", str(SCRIBE), str(entry.path)],
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert child.stdout  # noqa: S101
        with child.stdout as told:
            has_claim = told.readline() == b"claimed\n"
        if not has_claim:
            child.wait()
            return False
        with self._lock:
            self._children[entry.key] = child
        return True

    def finish(self, entry: Entry) -> None:
        """Wait until all output is written down."""
        deadline = time.monotonic() + FINISH_S
        while _is_writing(entry) and time.monotonic() < deadline:
            # One whose container ended before it wrote anything still waits for a first writer.
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
    return stat is not None and stat.state != "Z" and stat[:2] == known
