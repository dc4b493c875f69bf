"""`pit-worker install`: the worker as a systemd service that starts with the machine."""

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


def install(config: Path) -> Path:
    """Write the unit, start it now and with the machine; returns its file. Raises SettingError."""
    try:
        systemd.check(SERVICE, "--config", str(config))
        if not (config / FILE_NAME).is_file():
            raise SettingError(f"there is no {config / FILE_NAME}; `pit-worker join` writes it")
        return systemd.install(SERVICE, render_unit(config))
    except Problem as problem:
        raise SettingError(problem.message) from problem
