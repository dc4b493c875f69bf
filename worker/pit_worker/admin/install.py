"""`pit-worker install`: the worker as a systemd service that starts with the machine."""

import os
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.system import systemd
from pit_worker.settings import FILE_NAME, SettingError

SERVICE = systemd.Service(
    "pit-worker", "pit_worker", Path(__file__).with_name("pit-worker.service"), "pit-worker run"
)


def render_unit(config: Path) -> str:
    """The unit, for a worker with its settings in `config`."""
    return SERVICE.render(config=str(config.absolute()))


def install(config: Path, *, for_user: bool = False) -> Path:
    """Write the unit, start it now and with the machine; returns its file. Raises SettingError."""
    try:
        if not for_user:
            systemd.check(SERVICE, "--config", str(config))
        if not (config / FILE_NAME).is_file():
            raise SettingError(f"there is no {config / FILE_NAME}; `pit-worker join` writes it")
        if for_user:
            return systemd.install_for_user(SERVICE, render_unit(config), _user_units())
        return systemd.install(SERVICE, render_unit(config))
    except Problem as problem:
        raise SettingError(problem.message) from problem


def _user_units() -> Path:
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(chosen) if chosen.startswith("/") else Path.home() / ".config") / "systemd/user"
