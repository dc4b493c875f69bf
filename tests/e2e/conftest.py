"""Clusters for tests: one each, or one for all that change nothing in it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster, Project, running


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path, project: Project) -> Iterator[Cluster]:
    """A cluster for one test, which may do to it what it likes."""
    with running(Cluster(tmp_path, project)) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for tests that change nothing in it."""
    place = tmp_path_factory.mktemp("shared")
    with running(Cluster(place, Project(place))) as cluster:
        yield cluster
