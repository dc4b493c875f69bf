"""How the cluster was used over the last hours."""

import time
from collections.abc import Callable

from sqlalchemy import update

from pit_server.context import Head
from pit_server.db.models import Allocation, Attempt, Job
from pit_server.services.nodes import utilisation
from tests.support.clusters.head import Worker


def test_gpus_waits_and_users_are_counted_within_the_time(
    head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node(gpus={"a100": 4})
    number, other = a_placed_job("[2:a100]"), a_placed_job("[a100]")
    now = time.time()
    with head.database.write() as session:
        session.execute(update(Job).where(Job.id == number).values(created_at=now - 2400))
        session.execute(update(Attempt).where(Attempt.job_id == number).values(created_at=now - 1800))
        session.execute(update(Job).where(Job.id == other).values(created_at=now - 9000))
        session.execute(update(Attempt).where(Attempt.job_id == other).values(created_at=now - 8000))
        session.execute(update(Allocation).where(Allocation.released_at.is_(None)).values(released_at=now))
    with head.database.read() as session:
        found = utilisation.history(session, 3600, now=now)
        later = utilisation.history(session, 3600, now=now + 7200)
    assert found.gpus == 4
    assert [round(value) for value in found.busy] == [1] * 30 + [3] * 30
    assert [round(value) for value in found.waiting] == [0] * 20 + [1] * 10 + [0] * 30
    assert (found.started, round(found.median_wait_s or 0)) == (1, 600)
    assert round(found.busy_percent or 0) == 50
    assert [(used.name, round(used.gpu_hours, 2), used.jobs) for used in found.users] == [("anna", 2.0, 2)]
    assert not later.users and not sum(later.busy) and later.median_wait_s is None
