"""A worker with an engine that is too old."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pit_worker.runtime.docker.engine_watch import TOO_OLD
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually, Workers

ANSWERS = {
    "version": {"ApiVersion": "1.41", "Version": "19.03.15"},
    "info": {"ServerVersion": "19.03.15"},
    "_ping": {},
}


class OldEngine(BaseHTTPRequestHandler):
    """It answers every request, and has no containers."""

    def do_GET(self) -> None:
        body = json.dumps(ANSWERS.get(self.path.partition("?")[0].rpartition("/")[2], [])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "somebody"

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def old_engine(tmp_path: Path) -> Iterator[str]:
    place = tmp_path / "docker.sock"
    with socketserver.ThreadingUnixStreamServer(str(place), OldEngine) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"unix://{place}"
        server.shutdown()


@pytest.mark.threat("S62")
def test_a_node_with_an_engine_that_is_too_old_takes_no_processes(
    head: StubHead, workers: Workers, old_engine: str, eventually: Eventually
):
    workers.start(PIT_WORKER_RUNTIME="docker", DOCKER_HOST=old_engine)
    eventually(lambda: head.spoken and head.spoken[-1].trouble == TOO_OLD)
