"""Users, workers and jobs for tests of the head; they use its HTTP API."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from pit_protocol import API_PREFIX
from pit_protocol.job_options import OPTIONS
from pit_protocol.messages.beat import (
    BEAT_TYPE,
    Beat,
    ChunkHead,
    Hello,
    Inventory,
    Order,
    Orders,
    Report,
    Resource,
    Runtime,
    Trouble,
    Usage,
    Welcome,
    pack_beat,
)
from pit_protocol.states import JobEvent, KilledBy, ProcessState
from pit_protocol.version_check import HEADERS
from pit_protocol.wire import from_json, to_json
from pit_server.context import Head
from pit_server.services.jobs import lifecycle, preparation

# For tests of git, files and bad input, which do not depend on the database.
ONE_DATABASE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
NOW = 1_700_000_000.0
_keys = itertools.count(1)


class Caller:
    """A holder of a token."""

    def __init__(self, app: Flask, name: str, token: str) -> None:
        self.app, self.name, self.token = app, name, token

    def call(self, method: str, path: str, **options: Any) -> TestResponse:
        headers = {"Authorization": f"Bearer {self.token}", **HEADERS, **options.pop("headers", {})}
        with self.app.test_client() as client:
            # Buffered: read to the end and closed, as a server does it.
            return client.open(API_PREFIX + path, method=method, headers=headers, buffered=True, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.call("GET", path, **options)

    def post(self, path: str, **options: Any) -> TestResponse:
        return self.call("POST", path, **options)

    def put(self, path: str, **properties: str) -> TestResponse:
        return self.call("PUT", path, json={"set": properties})

    def patch(self, path: str, **properties: str) -> TestResponse:
        return self.call("PATCH", path, json={"set": properties})

    def delete(self, path: str) -> TestResponse:
        return self.call("DELETE", path)

    def ok(self, answer: TestResponse) -> Any:
        """The body of an answer, which must be a success."""
        assert answer.status_code in (200, 201), answer.json
        return answer.json


class Person(Caller):
    """A user with a client."""

    def upload(self, body: bytes) -> str:
        name = hashlib.sha256(body).hexdigest()
        answer = self.call("PUT", f"/uploads/{name}?size={len(body)}", data=body)
        assert answer.status_code in (200, 201), answer.json
        return name

    def submit(self, **fields: Any) -> int:
        answer = self.post("/jobs", json=a_submission(**fields))
        assert answer.status_code == 201, answer.json
        return int(answer.json["number"])

    def job(self, number: int) -> dict[str, Any]:
        answer = self.get(f"/jobs/{number}")
        assert answer.status_code == 200, answer.json
        return dict(answer.json)

    def stop(self, number: int) -> TestResponse:
        return self.post(f"/jobs/{number}/stop")

    def log(self, number: int, **query: Any) -> dict[str, Any]:
        answer = self.get(f"/jobs/{number}/log", query_string=query)
        assert answer.status_code == 200, answer.json
        return dict(answer.json)


class Worker(Caller):
    """A node's worker under the test's control; it remembers only its epoch."""

    boot_id = "boot-1"
    epoch = 0
    seen = 0

    def hello(
        self,
        inventory: Inventory,
        address: str = "",
        runtime: str = "process",
        overlay: str = "",
        *,
        separates_users: bool | None = None,
        trouble: str | None = None,
        epoch: int = 0,
        spool: str = "",
        count: int = 0,
    ) -> Welcome:
        """`separates_users` is as the runtime does it, if it is None."""
        place = address or f"{self.name}.lab"
        hello = Hello(
            self.boot_id,
            inventory,
            place,
            Runtime(runtime),
            overlay,
            separates_users=runtime == Runtime.DOCKER if separates_users is None else separates_users,
            account="lab",
            trouble=trouble,
            epoch=epoch,
            spool=spool,
            count=count,
        )
        answer = self.post("/node/session", json=to_json(hello))
        assert answer.status_code == 200, answer.json
        welcome = from_json(Welcome, answer.json)
        self.epoch = welcome.epoch
        return welcome

    def send(self, beat: Beat, chunks: Sequence[bytes] = ()) -> TestResponse:
        return self.post("/node/beat", data=pack_beat(beat, chunks), content_type=BEAT_TYPE)

    def beat(
        self, *reports: Report, chunks: Sequence[tuple[ChunkHead, bytes]] = (), wait_s: float = 0
    ) -> Orders:
        heads, bodies = tuple(head for head, _ in chunks), [body for _, body in chunks]
        answer = self.send(Beat(self.epoch, self.boot_id, self.seen, wait_s, reports, heads), bodies)
        assert answer.status_code == 200, answer.json
        orders = from_json(Orders, answer.json)
        self.seen = max(self.seen, orders.revision)
        return orders

    def complain(self, **reasons: str) -> None:
        """Report which resources are in trouble, by unit; all others are not."""
        troubles = tuple(Trouble(unit.replace("_", "-"), reason) for unit, reason in reasons.items())
        answer = self.send(Beat(self.epoch, self.boot_id, self.seen, troubles=troubles))
        assert answer.status_code == 200, answer.json

    def ail(self, trouble: str) -> None:
        """Report why the node takes no new processes."""
        answer = self.send(Beat(self.epoch, self.boot_id, self.seen, trouble=trouble))
        assert answer.status_code == 200, answer.json

    def orders(self) -> dict[int, Order]:
        return {order.process: order for order in self.beat().orders}


def a_chunk(process: int, body: bytes, *, offset: int = 0, at: float = NOW) -> tuple[ChunkHead, bytes]:
    return ChunkHead(process, 1, offset, len(body), at), body


def running(process: int, **fields: Any) -> Report:
    return Report(process, 1, ProcessState.RUNNING, **fields)


def using(process: int, gpu: float, memory: float) -> Report:
    return running(process, usage=Usage(gpu, memory))


def ended(process: int, exit_code: int | None = 0, **fields: Any) -> Report:
    return Report(process, 1, ProcessState.ENDED, exit_code=exit_code, **fields)


def killed(process: int, by: KilledBy, signal: int = 15) -> Report:
    return ended(process, None, signal=signal, killed_by=by)


def an_inventory(cores: int = 8, memory_mib: int = 16384, gpus: Mapping[str, int] | None = None) -> Inventory:
    units = [
        Resource(f"{model}-{index}".replace(" ", ""), model)
        for model, count in (gpus or {}).items()
        for index in range(count)
    ]
    return Inventory(cores, memory_mib, tuple(units))


def a_snapshot(**fields: Any) -> dict[str, Any]:
    """An empty project, which the head can prepare without any objects."""
    return {"tree": EMPTY_TREE, "commit": None, "remote": None, **fields}


def a_submission(**fields: Any) -> dict[str, Any]:
    """A submission; options of the job are given by their own names."""
    options = {name: fields.pop(name) for name in OPTIONS if name in fields}
    return {
        "key": f"key-{next(_keys)}",
        "title": "First light",
        "request": "[]",
        "options": {"command": "true", **options},
        "snapshot": a_snapshot(),
        **fields,
    }


def prepare(head: Head, number: int) -> None:
    preparation.prepare(head.database, head.data, head.settings, number)


def skip_preparation(head: Head, number: int) -> None:
    """Move a job to waiting without building its tree, where only its states matter."""
    with head.database.write() as session:
        lifecycle.advance(session, lifecycle.lock(session, number), JobEvent.PREPARED, now=NOW)
