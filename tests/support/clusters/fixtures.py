"""Fixtures: a cluster for one test, or one for all that leave it as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.local import Cluster, Project, running
from tests.support.mounts import BOUND, REMOTE, need_mounts


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path, project: Project) -> Iterator[Cluster]:
    """A cluster for one test, which may do anything to it; with `IN_REMOTE`, without the head's files."""
    cluster = Cluster(tmp_path, project)
    if getattr(request, "param", BOUND) == REMOTE:
        need_mounts()
        cluster.env["PIT_WORKER_DATA_ROOT"] = REMOTE
    with running(cluster):
        yield cluster
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for tests that kill and change nothing in it; jobs of others have run there."""
    place = tmp_path_factory.mktemp("shared")
    with running(Cluster(place, Project(place))) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The same, but its worker does not have the head's files."""
    need_mounts()
    place = tmp_path_factory.mktemp("remote")
    cluster = Cluster(place, Project(place))
    cluster.env["PIT_WORKER_DATA_ROOT"] = REMOTE
    with running(cluster):
        yield cluster
    assert str(place) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def used_cluster(request: pytest.FixtureRequest, project: Project) -> Cluster:
    """A shared cluster, used from a project of this test's own."""
    is_remote = getattr(request, "param", BOUND) == REMOTE
    shared: Cluster = request.getfixturevalue("shared_remote" if is_remote else "shared_cluster")
    return shared.with_project(project)
