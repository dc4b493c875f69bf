"""`make nemesis`: random faults for an hour. `SECONDS=60 SEED=7` repeats those of a seed for a minute.

`DATABASE=postgres` has the head on a PostgreSQL server, which is killed too; `RUNTIME=docker` runs the jobs
in containers of the engine of this machine.
"""

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker

from pit_server.app import create_head
from pit_server.settings import Settings
from tests.docker.conftest import add_image, make_tree
from tests.support.faults.cluster import OWNER, Cluster
from tests.support.faults.ledger import Ledger
from tests.support.faults.nemesis import NODES, Nemesis
from tests.support.servers.postgres import Postgres, find_binaries

DATABASES, RUNTIMES = ("sqlite", "postgres"), ("process", "docker")
IMAGE = "pit-nemesis:1"


def main() -> None:
    seconds = float(os.environ.get("SECONDS") or 3600)
    seed = int(os.environ.get("SEED") or random.randrange(1_000_000))
    database, runtime = _choice("DATABASE", DATABASES), _choice("RUNTIME", RUNTIMES)
    print(f"seed {seed}, {seconds:g} s, {database}, {runtime}", flush=True)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pit-nemesis-")))
        server = stack.enter_context(_postgres()) if database == "postgres" else None
        cluster = _make_cluster(place, server, runtime, stack)
        try:
            cluster.start()
            nemesis = Nemesis(cluster, seed, seconds, database=server)
            nemesis.run()
            print(f"seed {seed}\n{nemesis.report()}", flush=True)
        except BaseException:
            Path(f"nemesis-{seed}.log").write_text(cluster.console())
            print(f"seed {seed}; the programs' output is in nemesis-{seed}.log", file=sys.stderr)
            raise


def _choice(name: str, known: tuple[str, ...]) -> str:
    found = os.environ.get(name) or known[0]
    if found not in known:
        sys.exit(f"{name} is {' or '.join(known)}, not {found}")
    return found


def _make_cluster(place: Path, server: Postgres | None, runtime: str, stack: ExitStack) -> Cluster:
    place.chmod(0o755)  # in containers, jobs run as their users
    settings = Settings(home=place / "head", database_url=server.url("pit") if server else "")
    create_head(settings).database.dispose()
    if runtime == "process":
        cluster = Cluster(place, settings.home, settings.database_url, NODES)
        stack.callback(cluster.close)
        return cluster
    home = settings.root / "home" / OWNER
    ledger = Ledger(home / "ledger", "$USER_DIR/ledger")
    cluster = Cluster(place, settings.home, settings.database_url, NODES, ledger=ledger)
    cluster.checker.engine = stack.enter_context(_engine(place))
    cluster.environ |= {"PIT_HEAD_IMAGE": IMAGE, "PIT_HEAD_PULL": "never"}
    for node in cluster.nodes.values():
        node.environ["PIT_WORKER_RUNTIME"] = "docker"
    stack.callback(cluster.close)
    return cluster


@contextmanager
def _postgres() -> Iterator[Postgres]:
    server = Postgres(find_binaries())
    server.start(is_durable=True)
    server.create("pit")
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def _engine(place: Path) -> Iterator[docker.DockerClient]:
    client = docker.from_env(timeout=60)
    add_image(client, make_tree(place / "image" / "tree"), IMAGE)
    try:
        yield client
    finally:
        client.images.remove(IMAGE, force=True)
        client.close()


if __name__ == "__main__":
    main()
