"""The preparing threads: a few jobs of each user at a time, in the order they were submitted."""

import logging
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from pit_server import log_records
from pit_server.db.database import Database
from pit_server.services.jobs import preparation
from pit_server.services.jobs.preparation import Due
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot

RETRY_S = 30.0  # after which a preparation that failed unexpectedly is started again

log = logging.getLogger(__name__)
USERS = 2  # for whom there are threads; others wait until one of these is done


class Preparing:
    """A user's jobs take at most half of the threads, so that slow remotes of one do not stop the others."""

    def __init__(self, database: Database, data: DataRoot, settings: Settings) -> None:
        self._database, self._data, self._settings = database, data, settings
        self._threads = USERS * settings.prepare_parallel
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="prepare")
        self._lock = threading.Lock()
        self._under_way: dict[int, int] = {}  # numbers of jobs, with their users
        self._listed: dict[int, Due] = {}  # what was due when last listed, and has not been prepared since
        self._failed: set[int] = set()  # unexpectedly, such as without database; started again after RETRY_S

    def __call__(self) -> float | None:
        with self._database.read() as session:
            preparing = preparation.list_due(session)
        with self._lock:
            self._failed.clear()
            self._listed = preparing
        self._start()
        return RETRY_S if preparing else None

    @property
    def is_busy(self) -> bool:
        with self._lock:
            return bool(self._under_way)

    def _start(self) -> None:
        """Start as many of those that were listed last as there are threads for."""
        with self._lock:
            waiting = {
                number: due.user_id
                for number, due in self._listed.items()
                if number not in self._under_way and number not in self._failed
            }
            while len(self._under_way) < self._threads:
                number = choose(waiting, self._under_way.values(), self._settings.prepare_parallel)
                if number is None:
                    break
                self._under_way[number] = waiting.pop(number)
                self._pool.submit(self._prepare, number, self._listed[number])

    def _try(self, number: int) -> None:
        try:
            preparation.prepare(self._database, self._data, self._settings, number)
        except Exception:
            log.exception("preparing job %d failed unexpectedly", number)
            with self._lock:
                self._failed.add(number)

    def _prepare(self, number: int, due: Due) -> None:
        try:
            with log_records.about_job(number):
                self._try(number)
        finally:
            with self._lock:
                del self._under_way[number]
                if self._listed.get(number) == due:  # else it has become due once more
                    del self._listed[number]
        if not self._database.wakeups.is_closed:
            self._start()


def choose(waiting: Mapping[int, int], users: Collection[int], most: int) -> int | None:
    """The next job of those that wait: the first one of the user with the fewest under way."""
    busy = Counter(users)
    allowed = [number for number, user in waiting.items() if busy[user] < most]
    return min(allowed, key=lambda number: (busy[waiting[number]], number), default=None)
