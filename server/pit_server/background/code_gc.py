"""The code garbage collector: once a day, delete code that no job needs any more."""

from pit_protocol.durations import DAY_S
from pit_protocol.system.retention_clock import RetentionClock
from pit_server.db.database import Database
from pit_server.services.snapshots.retention import Retention
from pit_server.services.snapshots.sources import Sources
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot


class CodeGc:
    def __init__(self, database: Database, data: DataRoot, settings: Settings, clock: RetentionClock) -> None:
        self._clock = clock
        self._retention = Retention(database, Sources(data, settings))

    def __call__(self) -> float:
        self._retention.clean(now=self._clock.now())
        return DAY_S
