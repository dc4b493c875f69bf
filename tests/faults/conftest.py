"""Clusters to break. Every test ends with `Cluster.finish`: faults undone, jobs ended, invariants checked."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.head.conftest import (  # noqa: F401
    postgres,
    postgres_template,
    postgres_url,
    sqlite_template,
)
from tests.support.faults.cluster import Cluster

BOTH_DATABASES = pytest.mark.parametrize("a_cluster", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def a_cluster(
    request: pytest.FixtureRequest, tmp_path: Path, sqlite_template: Path  # noqa: F811
) -> Iterator[Callable[..., Cluster]]:  # fmt: skip
    """Make a cluster of these nodes, none of which runs yet; it is checked at the end of the test."""
    is_postgres = getattr(request, "param", "sqlite") == "postgresql"
    # Here, not below: the database must be there until the cluster is gone.
    url = str(request.getfixturevalue("postgres_url")) if is_postgres else ""
    made: list[Cluster] = []

    def build(*names: str, home: Path | None = None, database_url: str = url, **more: str) -> Cluster:
        home = home or tmp_path / "head"
        home.mkdir(mode=0o700, exist_ok=True)
        if not database_url:
            shutil.copyfile(sqlite_template, home / "pit.db")
        made.append(Cluster(tmp_path, home, database_url, names or ("n0",), **more))
        return made[-1]

    yield build
    has_failed = request.node.stash.get(FAILED, False)
    try:
        if not has_failed:
            for cluster in made:
                if not cluster.is_closed:
                    cluster.finish()
                assert "Traceback" not in cluster.console()
    finally:
        for cluster in made:
            print(cluster.console()[-10_000:])  # shown if the test fails
            cluster.close()


@pytest.fixture
def cluster(a_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster of one node that runs."""
    made = a_cluster("n0")
    made.start()
    return made


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Tell fixtures whether the test failed: its invariants then say nothing new."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report
