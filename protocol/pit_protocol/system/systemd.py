"""Installing a daemon of pit as a systemd service; head and worker do it alike."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.atomic_file import write_atomic
from pit_protocol.problem import Problem

UNITS = Path("/etc/systemd/system")
BOOTED = Path("/run/systemd/system")  # exists if systemd started this machine
SYSTEMCTL_S = 90.0


@dataclass(frozen=True)
class Service:
    """A program with a template of its unit, in which `@NAME@` stands for a value."""

    program: str  # `pit-head`
    module: str  # what `python -m` starts if the program is not a script
    template: Path
    without: str  # the command that works without systemd

    @property
    def unit(self) -> str:
        return f"{self.program}.service"

    @property
    def command(self) -> list[str]:
        """The command that starts this same program, whatever PATH says."""
        script = Path(sys.argv[0])
        if script.name == self.program and script.is_file():
            return [str(script.absolute())]
        return [sys.executable, "-m", self.module]

    def render(self, **values: str) -> str:
        text = self.template.read_text().replace("@COMMAND@", " ".join(map(_quote, self.command)))
        for name, value in values.items():
            text = text.replace(f"@{name.upper()}@", _quote(value))
        return text


def check(service: Service, *arguments: str) -> None:
    """Raise a Problem unless this user may install a service here; `arguments` are those of `install`."""
    if not BOOTED.is_dir() or not shutil.which("systemctl"):
        raise _problem(
            f"this machine does not run systemd; `{service.program} install --print` prints the unit, "
            f"`{service.without}` works without it"
        )
    if os.geteuid() != 0:
        command = " ".join([*service.command, "install", *arguments])
        raise _problem(f"only root may install a service; `sudo {command}` does")


def install(service: Service, text: str) -> Path:
    """Write the unit, start it now and with the machine; returns its file. Raises a Problem."""
    file = UNITS / service.unit
    try:
        write_atomic(file, text)
        file.chmod(0o644)
    except OSError as error:
        raise _problem(f"{file} cannot be written: {error.strerror}") from error
    # One that runs already is restarted; the processes of jobs keep running.
    for words in (["daemon-reload"], ["enable", service.unit], ["restart", service.unit]):
        _systemctl(words)
    return file


def install_for_user(service: Service, text: str, units: Path) -> Path:
    """The same as a service of this account, which runs also while the account is not logged in."""
    if not BOOTED.is_dir() or not shutil.which("systemctl"):
        raise _problem("this machine does not run systemd")
    # Only root may choose another account or protect itself from the kernel's memory killer.
    lines = [line for line in text.splitlines(True) if not line.startswith(("User=", "OOMScoreAdjust="))]
    file = units / service.unit
    try:
        units.mkdir(parents=True, exist_ok=True)
        write_atomic(file, "".join(lines).replace("multi-user.target", "default.target"), mode=0o644)
    except OSError as error:
        raise _problem(f"{file} cannot be written: {error.strerror}") from error
    for words in (["daemon-reload"], ["enable", service.unit], ["restart", service.unit]):
        _systemctl(["--user", *words])
    if linger := shutil.which("loginctl"):
        # Not all sites allow it; then the worker ends with the last login.
        subprocess.run([linger, "enable-linger"], capture_output=True, timeout=SYSTEMCTL_S, check=False)
    return file


def _systemctl(words: list[str]) -> None:
    try:
        done = subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, timeout=SYSTEMCTL_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise _problem(f"`systemctl {' '.join(words)}` took longer than {SYSTEMCTL_S:.0f} s") from None
    if done.returncode:
        error = (done.stderr.strip() or f"code {done.returncode}").splitlines()[-1]
        raise _problem(f"`systemctl {' '.join(words)}` failed: {error}")


def _problem(message: str) -> Problem:
    return Problem("not_installed", message)


def _quote(word: str) -> str:
    """Quote a word for a unit file, where `%` and `$` are special."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if any(character in escaped for character in " \t\\\"';") else escaped
