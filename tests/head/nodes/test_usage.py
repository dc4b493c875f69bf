"""What jobs use is kept for the whole run, in few rows, with the right means."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from sqlalchemy import func, select

from pit_protocol.messages.beat import Usage
from pit_server.context import Head
from pit_server.db.models import Sample
from pit_server.settings import Settings
from tests.support.clusters.head import Person, Worker, running

MOST = 20


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, samples_per_job=MOST)


def test_samples_are_bounded_and_their_resolution_falls_with_age(
    head: Head,
    node: Worker,
    anna: Person,
    a_placed_job: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_800_000_000.0]
    monkeypatch.setattr("pit_server.api.routes.worker.sessions.time.time", lambda: now[0])
    number = a_placed_job()
    (process,) = node.orders()
    count = 150
    for index in range(count):
        now[0] += 30
        usage = Usage(cpu_percent=float(index), memory_mib=1024.0)
        node.beat(running(process, usage=usage))
    with head.database.read() as session:
        rows, weight = session.execute(select(func.count(), func.sum(Sample.weight))).one()
    assert (rows <= MOST, weight) == (True, count)
    job = anna.job(number)
    assert job["cpu_percent"] == pytest.approx((count - 1) / 2)
    assert (job["memory_mib"], job["gpu_percent"]) == (1024.0, None)
    (history,) = anna.get(f"/jobs/{number}/usage").json["processes"]
    times = [sample[0] for sample in history["samples"]]
    steps = [later - earlier for earlier, later in pairwise(times)]
    assert times[-1] == now[0]
    assert steps == sorted(steps, reverse=True)
    assert (steps[0] > 120, steps[-1]) == (True, 30)
