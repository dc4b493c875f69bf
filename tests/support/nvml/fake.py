"""A fake GPU driver: `libnvidia-ml.so.1` in C, and the file that it reads."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml.c")
MISSING = "the fake GPU driver needs a C compiler, `cc`"

DRIVER_NOT_LOADED, GPU_IS_LOST, RESET_REQUIRED = 9, 15, 16  # codes of NVML


@dataclass
class FakeInstance:
    """A MIG instance."""

    uuid: str
    memory_mib: int = 4864
    used_mib: int = 0
    slices: int = 1
    processes: dict[int, int] = field(default_factory=dict)  # process id -> MiB


@dataclass
class FakeGpu:
    uuid: str
    model: str = "NVIDIA A100-SXM4-40GB"
    pci: str = "0000:01:00"
    memory_mib: int = 40960
    used_mib: int = 0
    busy_percent: int = 0
    ecc_errors: int = 0
    error: int = 0  # with which all calls about it fail
    processes: dict[int, int] = field(default_factory=dict)  # process id -> MiB
    instances: list[FakeInstance] | None = None  # not None: MIG is on


class FakeNvml:
    """Builds the library in `folder`; a worker that was started with `environ` sees what was set last."""

    def __init__(self, folder: Path, gpus: Sequence[FakeGpu] = (), *, speedup: float = 20.0) -> None:
        """`speedup`: how many times as often as in production the worker checks."""
        self._state = folder / "gpus"
        self.library = folder / "libnvidia-ml.so.1"
        folder.mkdir(parents=True, exist_ok=True)
        self.library.write_bytes(_compile())
        self.environ = {
            "LD_LIBRARY_PATH": str(folder),
            "FAKE_NVML": str(self._state),
            "PIT_GPU_SPEEDUP": str(speedup),
        }
        self.set(gpus)

    def report(self, uuid: str, xid: int) -> None:
        """From now on the driver reports this error too."""
        with self._state.open("a") as state:
            state.write(f"xid\t{uuid}\t{xid}\n")

    def set(self, gpus: Sequence[FakeGpu], *, error: int = 0, hangs: bool = False) -> None:
        """Replace the GPUs; `error` fails all calls, `hangs` blocks them until the next `set`."""
        errors = self._state.read_text().splitlines() if self._state.exists() else []
        lines = [f"driver\t{error}\t{int(hangs)}", *(line for gpu in gpus for line in _lines(gpu))]
        lines += [line for line in errors if line.startswith("xid")]
        partial = self._state.with_suffix(".part")
        partial.write_text("".join(f"{line}\n" for line in lines))
        partial.replace(self._state)


def _lines(gpu: FakeGpu) -> list[str]:
    values = (gpu.uuid, gpu.model, gpu.pci, gpu.memory_mib, gpu.used_mib, gpu.busy_percent,
              gpu.ecc_errors, gpu.error, int(gpu.instances is not None))  # fmt: skip
    lines = ["\t".join(map(str, ("gpu", *values))), *_process_lines(gpu.processes)]
    for each in gpu.instances or ():
        lines.append(f"instance\t{each.uuid}\t{each.memory_mib}\t{each.used_mib}\t{each.slices}")
        lines += _process_lines(each.processes)
    return lines


def _process_lines(processes: dict[int, int]) -> list[str]:
    return [f"process\t{pid}\t{mib}" for pid, mib in processes.items()]


@cache
def _compile() -> bytes:
    """The library, compiled once for all tests."""
    if not shutil.which("cc"):
        pytest.fail(MISSING) if os.environ.get("CI") else pytest.skip(MISSING)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "library.so")
        command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE]
        subprocess.run(command, check=True)
        return library.read_bytes()
