"""Deletes the files of what was purged: it may take longer than any request."""

from pit_protocol.durations import DAY_S
from pit_server.db.database import Database
from pit_server.services.files import trash
from pit_server.store.data_root import DataRoot


class Purge:
    def __init__(self, database: Database, data: DataRoot) -> None:
        self._database, self._data = database, data

    def __call__(self) -> float:
        trash.delete_purged(self._database, self._data)
        return DAY_S  # what could not be deleted is tried again
