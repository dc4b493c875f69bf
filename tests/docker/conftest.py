"""A real Docker engine, images made on the spot, and workers that run containers."""

import os
import shutil
import subprocess
import sys
import tarfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import PRIVATE, Account, Container, Order, OrderAction, ProcessSpec, Pull
from pit_worker.runtime.docker.network.firewall import Firewall, bridge_name
from tests.support.requirements import lack
from tests.support.servers.docker_engine import OwnEngine
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import PYTHON_ENVIRON, Workers, data_root, eventually, head  # noqa: F401

ANN = Account(uid=200_001, gid=200_001, gids=(300_001,))
APPLETS = """
sh cat chmod dd echo env grep head hostname id kill ln ls mkdir mkfifo mknod nc nslookup ping ps
cut ip seq setsid sleep sort stat tail touch tr true unshare wget yes
"""


@pytest.fixture(scope="session")
def engine() -> Iterator[docker.DockerClient]:
    try:
        client = docker.from_env(timeout=60)
        client.ping()
    except (docker.errors.DockerException, OSError) as error:
        lack(f"no Docker engine: {error}")
    yield client
    client.close()


def make_tree(folder: Path, *programs: str) -> Path:
    """The files of a small image: busybox, and programs of this machine with their libraries."""
    busybox = shutil.which("busybox")
    if busybox is None:
        lack("no busybox-static to make an image of")
    for name in ("bin", "tmp", "etc", "proc", "dev", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    shutil.copy(busybox, folder / "bin/busybox")
    for applet in APPLETS.split():
        (folder / "bin" / applet).symlink_to("busybox")
    for program in programs:
        target = folder / program.lstrip("/")
        target.unlink(missing_ok=True)  # busybox may have one of the same name
        # Without attributes: images cannot have file capabilities.
        shutil.copyfile(program, target)
        target.chmod(0o755)
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for library in (word for word in told.split() if word.startswith("/")):
            target = folder / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, target)
    return folder


def add_image(client: docker.DockerClient, tree: Path, name: str, changes: list[str] | None = None) -> None:
    archive = tree.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(tree, ".")
    repository, _, tag = name.rpartition(":")
    client.api.import_image(str(archive), repository=repository, tag=tag, changes=changes)


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("image") / "tree")


@pytest.fixture(scope="session")
def image(engine: docker.DockerClient, tree: Path) -> Iterator[str]:
    name = f"pit-test-{uuid.uuid4().hex[:8]}:1"
    add_image(engine, tree, name)
    yield name
    engine.images.remove(name, force=True)


class Containers(Workers):
    """Workers that run containers, and orders for them."""

    def __init__(self, stub: StubHead, folder: Path, client: docker.DockerClient, image: str) -> None:
        super().__init__(stub, folder)
        self.client = client
        self.image = image
        self.environ: dict[str, str] = {}

    def start(self, spool: Path | None = None, **environ: str) -> subprocess.Popen[str]:
        return super().start(spool, **{"PIT_WORKER_RUNTIME": "docker", **self.environ, **environ})

    def run(self, process: int, command: str | None, attempt: int = 1, **more: Any) -> None:
        spec = self.spec(command, **more)
        self.head.order(Order(process, attempt, OrderAction.RUN, spec=spec))

    def spec(self, command: str | None, *, env: dict[str, str] | None = None, **more: Any) -> ProcessSpec:
        plain = {name: more.pop(name) for name in ("grace_s", "hostfile") if name in more}
        names = ("image", "pull", "network", "name", "shm_mib", "pids")
        container = Container(self.image, Pull.NEVER, PRIVATE, "p0", 64, 200)
        container = replace(container, **{name: more.pop(name) for name in names if name in more})
        spec = a_spec(command, **plain, **(env or {}))
        return replace(spec, **{"account": ANN, "container": container, **more})

    @property
    def bridges(self) -> str:
        """How the names of this worker's bridges begin."""
        return bridge_name(self.spool, "")[:8]

    def doctor(self) -> list[str]:
        """The lines of `pit-worker doctor` for this worker's settings."""
        environ = {"PIT_WORKER_URL": self.head.url, "PIT_WORKER_TOKEN_FILE": str(self.token_file),
                   "PIT_WORKER_SPOOL": str(self.spool), "PIT_WORKER_RUNTIME": "docker"}  # fmt: skip
        command = [sys.executable, "-m", "pit_worker", "doctor"]
        told = subprocess.run(command, env={**os.environ, **PYTHON_ENVIRON, **environ}, capture_output=True,
                              text=True, check=False)  # fmt: skip
        return told.stdout.splitlines()

    def name(self, process: int, attempt: int = 1) -> str:
        return "pit-{}-{}-{}".format(self.head.cluster, *self.head.key(process, attempt))

    def inspect(self, process: int) -> dict[str, Any]:
        found: dict[str, Any] = self.client.api.inspect_container(self.name(process))
        return found

    def left(self) -> list[str]:
        """Names of all that is still there of this test's containers and networks."""
        own = {"label": f"pit.cluster={self.head.cluster}"}
        containers = self.client.api.containers(all=True, filters=own)
        networks = self.client.api.networks(filters=own)
        return [each["Names"][0] for each in containers] + [each["Name"] for each in networks]

    def settle(self) -> None:
        """End what a test has left, until this worker is as good as new."""
        self.head.stop_all()
        deadline = time.monotonic() + 60
        while (left := [*self.left(), *self.entries()]) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert left == []
        self.head.begin_next_test()

    def entries(self) -> list[str]:
        """The processes that the worker knows."""
        return [path.name for path in self.spool.glob("[0-9]*")]

    def close(self) -> None:
        super().close()
        Firewall(self.spool).remove()
        own = {"label": f"pit.cluster={self.head.cluster}"}
        # The engine may still be working on the killed worker's last request, such as a creation.
        quiet_s = 0.5 if {*self.head.orders} - {*self.head.ends} else 0.0
        deadline, quiet_at = time.monotonic() + 20, time.monotonic() + quiet_s
        while (left := self.left()) or time.monotonic() < quiet_at:
            if time.monotonic() > deadline:
                break
            if left:
                quiet_at = time.monotonic() + quiet_s
            for each in self.client.api.containers(all=True, filters=own):
                with suppress(docker.errors.APIError):
                    self.client.api.remove_container(each["Id"], v=True, force=True)
            for each in self.client.api.networks(filters=own):
                with suppress(docker.errors.APIError):
                    self.client.api.remove_network(each["Id"])
        assert left == []


@pytest.fixture
def own_root(data_root: Path) -> Path:  # noqa: F811
    """The data root as a head that runs as root leaves it: Ann owns her directories."""
    for name in ("home/ann", "jobs/1", "jobs/1/src", "jobs/1/keep"):
        os.chown(data_root / name, ANN.uid, ANN.gid)
    return data_root


@pytest.fixture
def containers(
    head: StubHead,  # noqa: F811
    tmp_path: Path,
    engine: docker.DockerClient,
    image: str,
    own_root: Path,
) -> Iterator[Containers]:
    containers = Containers(head, tmp_path, engine, image)
    yield containers
    containers.close()


@pytest.fixture
def own(request: pytest.FixtureRequest, tree: Path) -> Iterator[OwnEngine]:
    options, gpus = getattr(request, "param", ((), False))
    engine = OwnEngine(*options, gpus=gpus)
    try:
        add_image(engine.client, tree, "pit-test:1")
        yield engine
    finally:
        engine.close()


@pytest.fixture
def theirs(
    own: OwnEngine,
    head: StubHead,  # noqa: F811
    tmp_path: Path,
    own_root: Path,
) -> Iterator[Containers]:
    """Workers on the engine of the test's own."""
    containers = Containers(head, tmp_path, own.client, "pit-test:1")
    containers.environ["DOCKER_HOST"] = own.host
    yield containers
    own.thaw()
    containers.client = own.client
    containers.close()
