"""Each mistake of the table gets its exit code, and a sentence that names the way out."""

import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from pit_protocol.atomic_file import write_atomic
from pit_server.app import create_app, create_head
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.settings import Settings
from tests.client.conftest import Pit
from tests.support.clusters.head import NOW, Person, Worker, an_inventory
from tests.support.mistakes import MISTAKES

AWAY = "http://127.0.0.1:1"  # nothing listens there
ROWS = [(place, line, *answer) for place, table in MISTAKES.items() for line, answer in table.items()]


@pytest.fixture(scope="module")
def real_head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address and token of a head with a node, and a job that has ended."""
    head = create_head(Settings(home=tmp_path_factory.mktemp("mistakes") / "head", bcrypt_cost=4))
    app = create_app(head)
    with head.database.write() as session:
        user = accounts.add(session, "anna", is_admin=True, now=NOW)
        _, token = tokens.issue(session, user_id=user.id, now=NOW, expires_at=None)
        node = nodes.add(session, "n0", now=NOW)
        _, node_token = tokens.issue(session, node_id=node.id, now=NOW, expires_at=None)
    Worker(app, "n0", node_token).hello(an_inventory(gpus={"GeForce GTX 1070": 1}))
    anna = Person(app, "anna", token)
    anna.stop(anna.submit())
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", token
    server.shutdown()
    thread.join()
    server.server_close()
    head.wakeups.close()
    head.database.dispose()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("mistakes") / "project"
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / ".compute").write_text("echo computing\n")
    (top / "model.py").write_text("print('one')\n")
    return top


@pytest.fixture
def enter(
    real_head: tuple[str, str], project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Go to a place where mistakes are made."""

    def go(place: str) -> None:
        url, token = {"head away": (AWAY, "pit_a1_secret")}.get(place, real_head)
        if place not in ("no head", "untrusted"):
            (home / ".pitconnect.txt").write_text(f"{url}\n")
        if place not in ("no head", "untrusted", "no token"):
            write_atomic(home / ".pituser.txt", f"{url} anna {token}\n")
        if place in ("project", "no head", "head away"):
            monkeypatch.chdir(project)
        if place in ("no script", "untrusted"):
            subprocess.run(["git", "init", "-q"], check=True)
        if place == "untrusted":
            theirs = home / "theirs"
            theirs.mkdir()
            (theirs / ".pitconnect.txt").write_text("https://pit.example.org\n")
            monkeypatch.chdir(theirs)

    return go


@pytest.mark.parametrize(
    ("place", "line", "code", "sentence"), ROWS, ids=[f"{place}: {line}" for place, line, *_ in ROWS]
)
def test_a_mistake_is_answered_with_the_way_out(
    enter: Callable[[str], None], pit_command: Pit, place: str, line: str, code: int, sentence: str
) -> None:
    enter(place)
    result = pit_command(*shlex.split(line))
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("pit: ")
    assert sentence in result.stderr


def test_the_table_has_at_least_120_mistakes() -> None:
    assert len(ROWS) >= 120
