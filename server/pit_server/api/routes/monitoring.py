"""For programs that watch the head: metrics, and whether it serves. Outside of the API, where they look."""

import time
from collections.abc import Iterator

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import text

from pit_protocol.answers.users import Health
from pit_protocol.problem import Problem
from pit_server.api.http.context import head
from pit_server.api.http.description import describe
from pit_server.api.http.guard import Role, allow
from pit_server.metrics import REGISTRY
from pit_server.services import cluster_metrics

blueprint = Blueprint("monitoring", __name__)


class _Cluster(Collector):
    """Gauges from the database."""

    def collect(self) -> Iterator[Metric]:
        with head().database.read() as session:
            families = list(cluster_metrics.collect(session, now=time.time()))
        for family in families:
            metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
            for labels, value in family.values:
                metric.add_metric(labels, value)
            yield metric


@blueprint.get("/metrics")
@allow(Role.ADMIN)
@describe(sends=("text/plain",))
def metrics() -> Response:
    """Metrics for Prometheus."""
    of_cluster = CollectorRegistry()
    of_cluster.register(_Cluster())
    body = generate_latest(REGISTRY) + generate_latest(of_cluster)
    return Response(body, content_type=CONTENT_TYPE_LATEST)


@blueprint.get("/healthz")
@allow(Role.ANYONE)
def healthz() -> Health:
    """Whether the head answers at all."""
    return Health("ok")


@blueprint.get("/readyz")
@allow(Role.ANYONE)
def readyz() -> Health:
    """Whether the head can work: its database answers, its data root is there, its disk has room."""
    with head().database.read() as session:
        session.execute(text("SELECT 1"))
    if not head().data.root.is_dir():
        raise Problem("not_ready", "the data root is not there", status=503)
    if head().quotas.is_disk_full:
        raise Problem("not_ready", "the head's disk is full", status=503)
    return Health("ok")
