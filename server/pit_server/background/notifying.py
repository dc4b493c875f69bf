"""The notifying threads: messages of the outbox, a few at a time, one at a time for each receiver."""

import logging
import threading
import time

from sqlalchemy import select

from pit_protocol.notifications import KEY, MAIL, WEBHOOK
from pit_protocol.problem import Problem
from pit_server import metrics
from pit_server.db.database import AnyRow, Database
from pit_server.db.models import User
from pit_server.services.notifications import channels, delivery, outbox
from pit_server.settings import Settings
from pit_server.wakeups import NOTIFIER

log = logging.getLogger(__name__)
THREADS = 8


class Notifying:
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings
        self._lock = threading.Lock()
        self._busy: set[tuple[int, str]] = set()  # users and channels

    def __call__(self) -> float | None:
        """Start what is due; returns when the next message is."""
        self.start_due()
        now = time.time()
        with self._database.read() as session:
            next_at = outbox.find_next(session)
        if next_at is None or next_at <= now:
            return None  # each thread that ends notifies
        return next_at - now

    def start_due(self) -> int:
        """Start to send what is due; returns how many messages these are."""
        with self._lock:
            busy = set(self._busy)
        with self._database.read() as session:
            rows = outbox.list_due(session, now=time.time(), busy=busy, most=THREADS)
        for row in rows:
            with self._lock:
                self._busy.add((row.user_id, row.channel))
            # Daemons, because a slow receiver must not delay the end of the head.
            threading.Thread(target=self._send, args=(row,), name="notify", daemon=True).start()
        return len(rows)

    @property
    def is_busy(self) -> bool:
        with self._lock:
            return bool(self._busy)

    def _send(self, row: AnyRow) -> None:
        try:
            error = self._try(row)
            with self._database.write() as session:
                metrics.NOTIFICATIONS.labels(row.channel, "failed" if error else "sent").inc()
                if error is None:
                    outbox.note_sent(session, row, now=time.time())
                elif outbox.note_failed(session, row, error, now=time.time()):
                    log.warning("a notification of user %d by %s was given up", row.user_id, row.channel)
        except Exception:
            log.exception("sending a notification failed unexpectedly")
            time.sleep(1.0)  # before it is tried again
        finally:
            with self._lock:
                self._busy.discard((row.user_id, row.channel))
            self._database.wakeups.notify([NOTIFIER])

    def _try(self, row: AnyRow) -> str | None:
        """Send a message; returns why that failed."""
        try:
            with self._database.read() as session:
                home = self._settings.home
                value = channels.get(session, home, row.user_id, row.channel)
                signs = channels.get(session, home, row.user_id, KEY) or ""
                if row.channel == MAIL:
                    value = session.execute(select(User.email).where(User.id == row.user_id)).scalar_one()
            if not value or (row.channel == WEBHOOK and not signs):
                return "it is not set up any more"
            delivery.deliver(
                self._settings, row.channel, value, row.key, row.message, signs=signs, now=time.time()
            )
        except delivery.Undelivered as error:
            return str(error)
        except Problem as problem:
            return problem.message
        return None
