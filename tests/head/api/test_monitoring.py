"""What programs see that watch the head: metrics for admins, probes for anyone."""

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import event

from pit_server import log_records, metrics
from pit_server.context import Head
from pit_server.services import cluster_metrics
from tests.support.clusters.head import NOW, ONE_DATABASE, Person, Worker, ended, running

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "examples" / "monitoring"
NAME = re.compile(r"\bpit_[a-z_]+\b")


def scrape(app: Flask, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return app.test_client().get("/metrics", headers=headers)


def values(app: Flask, root: Person) -> dict[str, float]:
    """Every sample by its name and labels."""
    lines = scrape(app, root.token).text.splitlines()
    return {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


@ONE_DATABASE
def test_only_admins_get_metrics(app: Flask, anna: Person, root: Person, node: Worker) -> None:
    found = [scrape(app, token).status_code for token in ("", anna.token, node.token, root.token)]
    assert found == [401, 403, 403, 200]


def test_metrics_tell_of_jobs_nodes_and_gpus(
    app: Flask, root: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    before = values(app, root)
    node = a_node(gpus={"A 100": 2})
    a_placed_job("[a100]")
    a_placed_job("[2:a100]")
    (process,) = node.orders()
    node.beat(running(process))
    found = values(app, root)
    assert (found['pit_jobs{state="running"}'], found['pit_jobs{state="waiting"}']) == (1, 1)
    assert found['pit_processes{state="running"}'] == 1
    assert (found['pit_gpus{kind="a100"}'], found['pit_gpus_allocated{kind="a100"}']) == (2, 1)
    assert found['pit_nodes{state="online"}'] == 1
    assert found["pit_queue_oldest_seconds"] > 0
    node.beat(ended(process, 3))
    after = values(app, root)
    for name in ("pit_job_wait_seconds_count", "pit_job_run_seconds_count"):
        assert after[name] == before[name] + 1
    failed = 'pit_jobs_ended_total{outcome="failed"}'
    assert after[failed] == before.get(failed, 0) + 1
    assert after["pit_beats_total"] > before["pit_beats_total"]
    assert (
        after['pit_database_seconds_count{kind="write"}'] > before['pit_database_seconds_count{kind="write"}']
    )


@ONE_DATABASE
def test_no_metric_reads_all_jobs(head: Head) -> None:
    asked: list[tuple[str, Any]] = []
    event.listen(
        head.database.engine,
        "before_cursor_execute",
        lambda _conn, _cursor, statement, parameters, *_: asked.append((statement, parameters)),
    )
    with head.database.read() as session:
        list(cluster_metrics.collect(session, now=NOW))
    queries = [each for each in asked if each[0].startswith("SELECT")]
    assert len(queries) < 12
    with head.database.engine.connect() as connection:
        plans = [
            (statement, row[3])
            for statement, parameters in queries
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    large = re.compile(r"SCAN (job|sample|event|attempt|allocation|process)\b(?! USING .*INDEX process_live)")
    assert [plan for plan in plans if large.search(plan[1])] == []


@ONE_DATABASE
def test_anyone_may_probe_and_learns_nothing(app: Flask, head: Head) -> None:
    client = app.test_client()
    for path in ("/healthz", "/readyz"):
        assert (client.get(path).status_code, client.get(path).json) == (200, {"status": "ok"})
    head.quotas.set_disk_full(True)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.mimetype) == (503, "application/problem+json")
    assert client.get("/healthz").status_code == 200


def _exposed(app: Flask, root: Person) -> set[str]:
    families = re.findall(r"^# TYPE (\S+) (\S+)", scrape(app, root.token).text, re.MULTILINE)
    return {name for name, _ in families if not name.endswith("_created")}


@ONE_DATABASE
def test_dashboard_alerts_and_documentation_name_metrics_that_exist(app: Flask, root: Person) -> None:
    exposed = _exposed(app, root)
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    alerts = (MONITORING / "alerts.yml").read_text()
    page = (ROOT / "docs" / "howto" / "monitoring.md").read_text()
    for source in (*asked, alerts, page):
        named = {re.sub(r"_(bucket|count|sum)$", "", name) for name in NAME.findall(source)}
        assert named <= exposed, source[:80]
    assert [name for name in sorted(exposed) if f"`{name}" not in page] == []


def test_lines_of_the_log_name_the_request_and_the_job() -> None:
    record = logging.LogRecord("pit", logging.WARNING, "", 1, "no %s", ("room",), None)
    request = log_records.begin_request()
    with log_records.about_job(7):
        line = json.loads(log_records.JsonFormatter().format(record))
        plain = log_records.TextFormatter().format(record)
    assert (line["level"], line["message"], line["request"], line["job"]) == (
        "warning",
        "no room",
        request,
        "7",
    )
    assert plain.endswith(f"pit: no room [request {request}] [job 7]")


@ONE_DATABASE
def test_an_answer_names_its_request(app: Flask, anna: Person) -> None:
    ids = {anna.get("/me").headers["X-Request-Id"] for _ in range(2)}
    assert len(ids) == 2


def test_requests_are_counted_by_kind_and_status() -> None:
    labels = {"kind": "short", "status": "418"}
    answer = metrics.Answer(metrics.Traffic.SHORT, 0.0)
    answer.note_end(418)
    assert metrics.REGISTRY.get_sample_value("pit_http_requests_total", labels) == 1
