"""`pit-worker install`: the worker as a systemd service that starts with the machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pit_protocol.atomic_file import write_atomic
from pit_worker.settings import FILE_NAME, SettingError

UNIT = "pit-worker.service"
UNITS = Path("/etc/systemd/system")
BOOTED = Path("/run/systemd/system")  # exists if systemd started this machine
SYSTEMCTL_S = 90.0


def render_unit(config: Path) -> str:
    """The unit, for a worker with its settings in `config`."""
    template = Path(__file__).with_name(UNIT).read_text()
    command = " ".join(map(_quote, own_command()))
    return template.replace("@COMMAND@", command).replace("@CONFIG@", _quote(str(config.absolute())))


def install(config: Path) -> Path:
    """Write the unit, start it now and with the machine; returns its file. Raises SettingError."""
    if not BOOTED.is_dir() or not shutil.which("systemctl"):
        raise SettingError(
            "this machine does not run systemd; `pit-worker install --print` prints the unit, "
            "`pit-worker run` works without it"
        )
    if os.geteuid() != 0:
        command = " ".join([*own_command(), "install", "--config", str(config)])
        raise SettingError(f"only root may install a service; `sudo {command}` does")
    if not (config / FILE_NAME).is_file():
        raise SettingError(f"there is no {config / FILE_NAME}; `pit-worker join` writes it")
    file = UNITS / UNIT
    try:
        write_atomic(file, render_unit(config))
        file.chmod(0o644)
    except OSError as error:
        raise SettingError(f"{file} cannot be written: {error.strerror}") from error
    # A worker that runs already is restarted; its processes keep running.
    for words in (["daemon-reload"], ["enable", UNIT], ["restart", UNIT]):
        _systemctl(words)
    return file


def own_command() -> list[str]:
    """The command that starts this same program, whatever PATH says."""
    script = Path(sys.argv[0])
    if script.name == "pit-worker" and script.is_file():
        return [str(script.absolute())]
    return [sys.executable, "-m", "pit_worker"]


def _systemctl(words: list[str]) -> None:
    try:
        done = subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, timeout=SYSTEMCTL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise SettingError(f"`systemctl {' '.join(words)}` took longer than {SYSTEMCTL_S:.0f} s") from None
    if done.returncode:
        error = (done.stderr.strip() or f"code {done.returncode}").splitlines()[-1]
        raise SettingError(f"`systemctl {' '.join(words)}` failed: {error}")


def _quote(word: str) -> str:
    """Quote a word for a unit file, where `%` and `$` are special."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(character in escaped for character in " \t\\\"';") else escaped
