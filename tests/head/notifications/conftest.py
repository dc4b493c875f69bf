"""A head that may send to receivers on loopback, and a way to send all that is due."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pit_server.background.notifying import Notifying
from pit_server.context import Head
from pit_server.settings import Settings
from tests.support.clusters.head import Person, Worker, ended, running
from tests.support.clusters.local import eventually
from tests.support.servers.receivers import MailReceiver, WebReceiver, mail_receiver, web_receiver


@pytest.fixture
def web() -> Iterator[WebReceiver]:
    with web_receiver() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        yield receiver


@pytest.fixture
def settings(tmp_path: Path, database_url: str, web: WebReceiver) -> Settings:
    """Without `mail`, which tests add to what they need."""
    return Settings(
        home=tmp_path / "home",
        database_url=database_url,
        git_protocols="https,http",
        git_local_hosts="127.0.0.1",
        telegram_url=web.url,
        bcrypt_cost=4,
        reserve_mib=0,
    )


@pytest.fixture
def send(head: Head) -> Callable[..., None]:
    """Send what is due, at a time so many seconds from now."""

    def send_due(**changed: object) -> None:
        notifying = Notifying(head.database, replace(head.settings, **changed))  # type: ignore[arg-type]
        while notifying.start_due():
            eventually(lambda: not notifying.is_busy)

    return send_due


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let the sender believe that it is so many seconds later."""
    begun = time.time()

    def move(seconds: float) -> None:
        monkeypatch.setattr("pit_server.background.notifying.time.time", lambda: begun + seconds)

    return move


@pytest.fixture
def run_job(node: Worker, anna: Person, a_placed_job: Callable[..., int]) -> Callable[..., int]:
    """Run a job to its end."""

    def run(exit_code: int = 0, **options: object) -> int:
        number = a_placed_job(**options)
        (process,) = node.orders()
        node.beat(running(process))
        node.beat(ended(process, exit_code))
        assert anna.job(number)["state"] == "ended"
        return number

    return run
