"""One worker for all tests that leave it as it was: each starts with no processes and an empty data root."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.docker.conftest import Containers
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import make_data_root

# Small, so that a test can use all of it; other test runs on this machine use other ones.
POOL = f"10.214.{random.randrange(256)}.0/25"


@pytest.fixture(scope="session")
def used(
    tmp_path_factory: pytest.TempPathFactory, engine: docker.DockerClient, image: str
) -> Iterator[Containers]:
    place = tmp_path_factory.mktemp("worker")
    head = StubHead(str(make_data_root(place)))
    containers = Containers(head, place, engine, image)
    containers.start(PIT_WORKER_NETWORK_POOL=POOL)
    yield containers
    containers.close()
    head.close()


@pytest.fixture
def data_root(used: Containers) -> Path:
    root = Path(used.head.data_root)
    for path in (*root.glob("shared/*"), *root.glob("[!s]*")):  # `shared` stays: the worker has mounted it
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return make_data_root(root.parent)


@pytest.fixture
def head(used: Containers) -> StubHead:
    return used.head


@pytest.fixture
def containers(used: Containers, own_root: Path) -> Iterator[Containers]:
    yield used
    used.settle()
