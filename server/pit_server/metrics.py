"""What this process counts and measures, for Prometheus.

What the database knows is read when somebody asks (`services/cluster_metrics.py`).
"""

import time
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pit_server.traffic import Traffic

REGISTRY = CollectorRegistry()
FAST_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
LONG_S = (1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86_400, 3 * 86_400, 7 * 86_400)
KIND = ("kind",)

REQUESTS = Counter(
    "pit_http_requests", "Answers, by kind of request and status.", ("kind", "status"), registry=REGISTRY
)
REQUEST_SECONDS = Histogram(
    "pit_http_request_seconds",
    "From a complete request to the end of its answer.",
    KIND,
    registry=REGISTRY,
    buckets=FAST_S,
)
ACTIVE = Gauge(
    "pit_http_active_requests", "Requests that have or wait for a thread.", KIND, registry=REGISTRY
)
REFUSED = Counter("pit_http_refused", "Requests for which there was no thread.", KIND, registry=REGISTRY)
CONNECTIONS = Gauge("pit_http_connections", "Open connections.", registry=REGISTRY)
BEATS = Counter("pit_beats", "Beats of nodes.", registry=REGISTRY)
PASS_SECONDS = Histogram(
    "pit_scheduler_pass_seconds", "Passes of the scheduler.", registry=REGISTRY, buckets=FAST_S
)
DATABASE_SECONDS = Histogram(
    "pit_database_seconds",
    "Sessions of the database: reading, writing, waiting to write.",
    KIND,
    registry=REGISTRY,
    buckets=FAST_S,
)
JOB_WAIT_SECONDS = Histogram(
    "pit_job_wait_seconds", "How long jobs waited in the queue.", registry=REGISTRY, buckets=LONG_S
)
JOB_RUN_SECONDS = Histogram("pit_job_run_seconds", "How long jobs ran.", registry=REGISTRY, buckets=LONG_S)
JOBS_ENDED = Counter("pit_jobs_ended", "Jobs that ended, by outcome.", ("outcome",), registry=REGISTRY)
NOTIFICATIONS = Counter(
    "pit_notifications",
    "Tries to send messages, by channel and result.",
    ("channel", "result"),
    registry=REGISTRY,
)

READ, WRITE, WAIT = (DATABASE_SECONDS.labels(kind) for kind in ("read", "write", "wait"))
_ACTIVE = {traffic: ACTIVE.labels(traffic) for traffic in Traffic}
_SECONDS = {traffic: REQUEST_SECONDS.labels(traffic) for traffic in Traffic}


def begin_request(traffic: Traffic) -> None:
    _ACTIVE[traffic].inc()


def end_request(traffic: Traffic) -> None:
    _ACTIVE[traffic].dec()


class Answer(NamedTuple):
    """An answer that is under way."""

    traffic: Traffic
    begun: float

    def note_end(self, status: int | None) -> float:
        """Count it, with status 0 if the client went away before; returns how long it took."""
        seconds = time.perf_counter() - self.begun
        REQUESTS.labels(self.traffic, str(status or 0)).inc()
        _SECONDS[self.traffic].observe(seconds)
        return seconds
