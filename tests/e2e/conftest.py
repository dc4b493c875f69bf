"""Clusters for tests: one each, or one for all that change nothing in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Project, running
from tests.e2e.mounts import BOUND, REMOTE, need_mounts


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path, project: Project) -> Iterator[Cluster]:
    """A cluster for one test, which may do to it what it likes; with `IN_BOTH`, in both ways to the data."""
    cluster = Cluster(tmp_path, project)
    if getattr(request, "param", BOUND) == REMOTE:
        need_mounts()
        cluster.env["PIT_WORKER_DATA_ROOT"] = REMOTE
    with running(cluster):
        yield cluster
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for tests that change nothing in it."""
    place = tmp_path_factory.mktemp("shared")
    with running(Cluster(place, Project(place))) as cluster:
        yield cluster
