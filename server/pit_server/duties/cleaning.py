"""The cleaning duty: once a day, let go of code that no job needs any more."""

import time

from pit_server.db.database import Database
from pit_server.services.retention import DAY_S, Retention
from pit_server.services.sources import Sources
from pit_server.settings import Settings
from pit_server.store.paths import DataRoot


class Cleaning:
    def __init__(self, database: Database, data: DataRoot, settings: Settings) -> None:
        self._retention = Retention(database, Sources(data, settings))

    def __call__(self) -> float:
        self._retention.clean(now=time.time())
        return DAY_S
