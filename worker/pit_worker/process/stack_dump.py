"""Stack dumps: where the Python programs of a stalled process are, written to its output before the stop.

py-spy reads the stacks of a running program from outside. Where the node does not have it, there are none.
"""

import logging
import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from pit_worker.runtime.base import Runtime
from pit_worker.spool.entry import Entry

PROGRAM = "py-spy"
TIMEOUT_S = 5.0  # for one program
MOST = 8  # programs of one process
MAX_BYTES = 32 * 1024  # of one stack
log = logging.getLogger(__name__)


def write(runtime: Runtime, entry: Entry) -> None:
    """Write the stacks of its Python programs to the output of a process; blocks."""
    program = shutil.which(PROGRAM)
    for pid in sorted(filter(_is_python, runtime.list_pids(entry)))[:MOST]:
        said = _dump(program, pid) if program else f"this node has no {PROGRAM}, which shows it"
        text = f"pit: where Python program {pid} is:\n{said.strip()}\n"
        _append(entry, text.encode(errors="replace")[:MAX_BYTES])


def _is_python(pid: int) -> bool:
    try:
        return "python" in Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return False


def _dump(program: str, pid: int) -> str:
    # Without pausing the program, which could hang together with py-spy.
    command = [program, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{PROGRAM} failed: {error}"
    return done.stdout if done.returncode == 0 else f"{PROGRAM} failed: {done.stderr.strip()[-200:]}"


def _append(entry: Entry, data: bytes) -> None:
    """Write to the pipe of its output, as the process itself does; drop what does not fit there now."""
    with suppress(OSError):
        pipe = os.open(entry.pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(pipe, data)
        finally:
            os.close(pipe)
