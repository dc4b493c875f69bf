"""The preparing thread: prepares a few jobs at a time, in the order they were submitted."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

from pit_server.db.database import Database
from pit_server.services.jobs import preparation
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot

log = logging.getLogger(__name__)


class Preparing:
    def __init__(self, database: Database, data: DataRoot, settings: Settings) -> None:
        self._database, self._data, self._settings = database, data, settings
        self._pool = ThreadPoolExecutor(settings.prepare_parallel, thread_name_prefix="prepare")
        self._lock = threading.Lock()
        self._under_way: set[int] = set()

    def __call__(self) -> None:
        with self._database.read() as session:
            numbers = preparation.list_preparing(session)
        with self._lock:
            new = [number for number in numbers if number not in self._under_way]
            self._under_way.update(new)
        for number in new:
            self._pool.submit(self._prepare, number)

    def _prepare(self, number: int) -> None:
        try:
            preparation.prepare(self._database, self._data, self._settings, number)
        except Exception:
            # The job stays in preparation; the next notification starts it again.
            log.exception("preparing job %d failed unexpectedly", number)
        finally:
            with self._lock:
                self._under_way.discard(number)
