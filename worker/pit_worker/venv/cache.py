"""The Python environments of a node: a directory for each user, in which their processes build them."""

import os
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.messages.beat import Account, Venv
from pit_worker.settings import Settings
from pit_worker.spool.environment import StartRefused

PRELUDE = Path(__file__).with_name("prelude.py")


@dataclass(frozen=True)
class VenvCache:
    folder: Path

    @classmethod
    def of(cls, settings: Settings) -> "VenvCache":
        """Beside the spool by default, because only the worker can enter the spool."""
        return cls(Path(settings.venv_dir) if settings.venv_dir else settings.spool.parent / "venvs")

    def user_dir(self, cluster: str, venv: Venv, account: Account | None) -> Path:
        return self.folder / cluster / (f"{venv.user}-{account.uid}" if account else venv.user)

    def make_user_dir(self, cluster: str, venv: Venv, account: Account | None) -> Path:
        """The directory of a user, which no other user can read or write; raises StartRefused."""
        place = self.user_dir(cluster, venv, account)
        try:
            for folder in (self.folder, place.parent):
                folder.mkdir(mode=0o711, parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
            _give(place, account)
        except OSError as error:
            why = f"{place}, for Python environments, cannot be used: {error.strerror}"
            raise StartRefused(why) from error
        return place


def variables(venv: Venv, place: str, prelude: str, image: str = "") -> dict[str, str]:
    """What starts the prelude, by the paths that the process sees; the command does not get them."""
    return {
        "PIT_VENV_PRELUDE": prelude,
        "PIT_VENV_FILE": venv.file,
        "PIT_VENV_PYTHON": venv.python,
        "PIT_VENV_DIR": place,
        "PIT_VENV_IMAGE": image,
    }


def _give(place: Path, account: Account | None) -> None:
    handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(handle, 0o700)
        if account and os.geteuid() == 0:
            os.fchown(handle, account.uid, account.gid)
    finally:
        os.close(handle)
