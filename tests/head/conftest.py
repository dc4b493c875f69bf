"""A head on SQLite and on PostgreSQL, without background threads: tests call them when needed."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from flask import Flask
from sqlalchemy import select

from pit_protocol.durations import DAY_S
from pit_server.app import create_app, create_head
from pit_server.context import Head
from pit_server.db.models import Node
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.settings import Settings
from tests.support.clusters.head import NOW, Person, Worker, an_inventory, prepare, skip_preparation
from tests.support.servers.postgres import Postgres, find_binaries
from tests.support.shared_statements import shared_statements

T = TypeVar("T")
_names = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def statements() -> Iterator[None]:
    with shared_statements():
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real server for the whole session, stopped and deleted at its end."""
    server = Postgres(find_binaries())
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_template(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a database that has all tables, to be copied."""
    postgres.create("template_pit")
    home = tmp_path_factory.mktemp("template")
    create_head(Settings(home=home, database_url=postgres.url("template_pit"))).database.dispose()
    return "template_pit"


@pytest.fixture
def postgres_url(postgres: Postgres, postgres_template: str) -> Iterator[str]:
    name = f"pit_{next(_names)}"
    postgres.create(name, template=postgres_template)
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The database URL; empty: SQLite in the head's home."""
    return "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file that has all tables, to be copied."""
    home = tmp_path_factory.mktemp("template")
    create_head(Settings(home=home)).database.dispose()
    return home / "pit.db"


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(
        home=tmp_path / "home",
        database_url=database_url,
        registration="open",
        git_protocols="https,ssh,file",
        bcrypt_cost=4,
        reserve_mib=0,
    )


@pytest.fixture
def home(settings: Settings, sqlite_template: Path) -> Path:
    settings.home.mkdir(mode=0o700)
    if not settings.database_url:
        shutil.copyfile(sqlite_template, settings.home / "pit.db")
    return settings.home


@pytest.fixture
def head(settings: Settings, home: Path) -> Iterator[Head]:
    head = create_head(settings)
    yield head
    head.wakeups.close()
    head.database.dispose()


@pytest.fixture
def app(head: Head) -> Flask:
    return create_app(head)


@pytest.fixture
def a_user(app: Flask, head: Head) -> Callable[..., Person]:
    def build(
        name: str = "anna", *, admin: bool = False, now: float = 0.0, days: float | None = None
    ) -> Person:
        with head.database.write() as session:
            user = accounts.add(session, name, is_admin=admin, now=NOW)
            expires_at = None if days is None else (now or NOW) + days * DAY_S
            _, token = tokens.issue(session, user_id=user.id, now=now or NOW, expires_at=expires_at)
            return Person(app, name, token)

    return build


@pytest.fixture
def a_node(app: Flask, head: Head) -> Callable[..., Worker]:
    def build(
        name: str = "n0",
        *,
        joins: bool = True,
        runtime: str = "process",
        overlay: str = "",
        shared_account: bool = True,
        separates_users: bool | None = None,
        **inventory: Any,
    ) -> Worker:
        with head.database.write() as session:
            known = session.execute(select(Node).where(Node.name == name)).scalar_one_or_none()
            node = known or nodes.add(session, name, now=NOW)  # known: by another worker
            node.shared_account = shared_account
            _, token = tokens.issue(session, node_id=node.id, now=NOW, expires_at=None)
        worker = Worker(app, name, token)
        if joins:
            offered = an_inventory(**inventory)
            worker.hello(offered, runtime=runtime, overlay=overlay, separates_users=separates_users)
        return worker

    return build


@pytest.fixture
def node(a_node: Callable[..., Worker]) -> Worker:
    """A node, for tests in which a job needs any."""
    return a_node()


@pytest.fixture
def anna(a_user: Callable[..., Person]) -> Person:
    return a_user("anna")


@pytest.fixture
def root(a_user: Callable[..., Person]) -> Person:
    return a_user("root", admin=True)


@pytest.fixture
def a_group(root: Person) -> Callable[..., None]:
    """A group with these members."""

    def build(name: str, *members: str) -> None:
        root.ok(root.put(f"/groups/{name}"))
        for member in members:
            root.ok(root.put(f"/users/{member}/groups/{name}"))

    return build


@pytest.fixture
def a_waiting_job(head: Head, anna: Person) -> Callable[..., int]:
    def build(request: str = "[]", *, with_tree: bool = False, **fields: Any) -> int:
        number = anna.submit(request=request, **fields)
        (prepare if with_tree else skip_preparation)(head, number)
        return number

    return build


@pytest.fixture
def a_placed_job(head: Head, a_waiting_job: Callable[..., int]) -> Callable[..., int]:
    def build(request: str = "[]", **fields: Any) -> int:
        number = a_waiting_job(request, **fields)
        head.scheduling()
        return number

    return build


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], T]], Callable[[], T]]]:
    """Start a function in a thread; calling the result waits for its return value."""
    with ThreadPoolExecutor(16) as pool:

        def begin(work: Callable[[], T]) -> Callable[[], T]:
            future = pool.submit(work)
            return lambda: future.result(30)

        yield begin
