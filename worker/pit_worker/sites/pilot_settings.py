"""What the agent leaves for the pilots of an allocation: a file that only their account can read."""

import json
from pathlib import Path

from pit_protocol.private_file import is_private
from pit_protocol.problem import Problem
from pit_protocol.wire import Float, Message, from_json, to_json
from pit_worker.settings import SettingError

FILE_NAME = "pilot.json"


class PilotSettings(Message, frozen=True):
    site: str
    url: str
    certificate: str
    data_root: str
    search_path: str
    keep_s: Float
    time_s: Float  # of the allocation
    notice_s: Float  # how long before the end of that time the site says so
    codes: tuple[str, ...]  # one for each pilot, by its index; each works once

    def to_json(self) -> dict[str, object]:
        found: dict[str, object] = to_json(self)
        return found

    def __repr__(self) -> str:
        return f"PilotSettings(site={self.site!r}, url={self.url!r})"


def read(folder: Path) -> PilotSettings:
    """Raises SettingError."""
    file = folder / FILE_NAME
    if not is_private(file):
        raise SettingError(f"other accounts may read {file}, which holds join codes")
    try:
        return from_json(PilotSettings, json.loads(file.read_text()))
    except (OSError, ValueError, Problem) as error:
        raise SettingError(f"{file} cannot be read: {error}") from error
