"""A small head for tests of the client; its answers are checked against the types of the protocol."""

import hashlib
import json
import re
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pit_protocol import PROTOCOL
from pit_protocol.answers.jobs import JobSummary
from pit_protocol.answers.queue import EstimateErrors
from pit_protocol.job_options import OPTIONS, JobOptions
from pit_protocol.messages.submission import SNAPSHOT_INCOMPLETE, Submission
from pit_protocol.problem import Problem
from pit_protocol.version_check import HEADER
from pit_protocol.wire import from_json, to_json
from tests.support.stubs.contract import check
from tests.support.stubs.users import SETTLED_AT, Answer, People

TOKEN = "pit_a1_secret"


@dataclass
class Call:
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    authorization: str | None


Fault = Callable[["Handler", Answer], None]


@dataclass
class StubHead:
    """Tests read and set its state directly; `url` is where it listens."""

    url: str = ""
    token: str = TOKEN
    calls: list[Call] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    submissions: list[dict[str, Any]] = field(default_factory=list)
    trees: set[str] = field(default_factory=set)  # of which it has all objects
    keys: dict[str, int] = field(default_factory=dict)
    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    logs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    # Unfinished lines, as the next answers give them after all lines.
    unfinished: dict[int, list[list[dict[str, Any]]]] = field(default_factory=dict)
    people: People = field(default_factory=lambda: People(TOKEN))
    bodies: dict[str, bytes] = field(default_factory=lambda: {"/archive": b"archive"})
    fetchable: bool = True
    batch: int = 2  # log lines in one answer
    faults: dict[tuple[str, str], list[Fault]] = field(default_factory=dict)
    revision: int = 1
    protocol: str = str(PROTOCOL)  # that it speaks; empty: it is older than the header

    def misbehave(self, method: str, path: str, *faults: Fault) -> None:
        """The next answers to this route go wrong in these ways."""
        self.faults.setdefault((method, path), []).extend(faults)

    def called(self, path: str) -> list[Call]:
        return [call for call in self.calls if call.path == path]

    def add_job(self, number: int, **fields: Any) -> dict[str, Any]:
        self.jobs[number] = a_record(number, **fields)
        return self.jobs[number]

    def answer(self, call: Call) -> Answer:
        if call.path == "/":
            return 200, self.people.about()
        if call.method == "POST" and call.path in ("/login", "/users", "/setup-code"):
            return self.people.log_in_or_register(call.path, call.body)
        if call.authorization != f"Bearer {self.token}":
            raise Problem("unauthorized", "this token is not known", status=401)
        if call.path == "/me":
            return 200, self.people.records["users"]["anna"]
        if call.path == "/status":
            return 200, self._status()
        found = self.people.answer(call.method, call.path, call.query, call.body)
        if found:
            return found
        if call.path.startswith("/uploads/"):
            return self._upload(call)
        if call.path.startswith("/trash"):
            return self.people.trash.answer(call.method, call.path, call.query)
        if call.path.startswith("/snapshots/"):
            return self._negotiate(call)
        return self._job_route(call)

    def _job_route(self, call: Call) -> Answer:
        if call.path == "/jobs":
            return self._submit(call) if call.method == "POST" else self._list(call)
        match = re.fullmatch(r"/jobs/(\d+)(/\w+)?", call.path)
        number = int(match[1]) if match else 0
        if number not in self.jobs:
            raise Problem("no_such_job", f"there is no job {number}", "`pit status` lists jobs", status=404)
        job, verb = self.jobs[number], match[2] if match else None
        if call.method == "PATCH":
            job.update(json.loads(call.body)["set"])
        if call.method == "DELETE":
            self.people.gone.append(call.path)
            del self.jobs[number]
            return 200, {"number": number, "trash": self.people.trash.add(f"job:{number}")}
        if verb == "/stop":
            return self._stop(job)
        if verb == "/log":
            return self._log(number, call.query)
        body = self.bodies.get(verb or "")
        return 200, job if body is None else body[int(call.query.get("offset", 0)) :]

    def _upload(self, call: Call) -> Answer:
        digest = call.path.rpartition("/")[2]
        known = self.uploads.setdefault(digest, b"")
        if call.method == "PUT":
            if int(call.query["offset"]) != len(known):
                raise Problem("wrong_offset", f"{len(known)} bytes are here", status=409)
            known = self.uploads[digest] = known + call.body
        is_complete = hashlib.sha256(known).hexdigest() == digest
        return 200, {"sha256": digest, "size": len(known), "complete": is_complete}

    def _negotiate(self, call: Call) -> Answer:
        body = json.loads(call.body)
        if call.path == "/snapshots/missing":
            return 200, body
        if body["remote"] and not self.fetchable:
            return 200, {"complete": False, "base": None, "why": "this head does not fetch from there"}
        return 200, {"complete": False, "base": body["base"], "why": ""}

    def _submit(self, call: Call) -> Answer:
        body = json.loads(call.body)
        submission = from_json(Submission, body)
        if submission.key in self.keys:
            return 200, self.jobs[self.keys[submission.key]]
        snapshot = submission.snapshot
        if submission.only_if_here and (snapshot is None or snapshot.tree not in self.trees):
            raise Problem(SNAPSHOT_INCOMPLETE, "objects are missing", status=409)
        assert (snapshot is None) != (submission.reruns is None)
        assert snapshot is None or snapshot.pack is None or snapshot.pack in self.uploads
        self.submissions.append(body)
        if snapshot:
            self.trees.add(snapshot.tree)
        if submission.reruns:
            body["snapshot"] = self.jobs[submission.reruns]["snapshot"]
        counted = {"dirty": False, "diff_files": 0, "diff_added": 0, "diff_removed": 0}
        shown = {**body["snapshot"], **counted}
        number = max(self.jobs, default=11) + 1
        self.keys[submission.key] = number
        kept = ("title", "request", "options", "reruns")
        known = {name: body[name] for name in kept} | {"variables": sorted(body["variables"])}
        return 201, self.add_job(number, snapshot=shown, **known)

    def _stop(self, job: dict[str, Any]) -> Answer:
        if job["state"] == "ended":
            raise Problem("already_ended", f"job {job['number']} has ended already", status=409)
        job["state"] = "stopping"
        return 200, job

    def _log(self, number: int, query: dict[str, str]) -> Answer:
        lines = self.logs.get(number, [])
        skipped = max(0, len(lines) - int(query.get("tail", len(lines))))
        start = int(query.get("cursor", skipped))
        end = min(len(lines), start + self.batch)
        ended = self.jobs[number]["state"] == "ended"
        if query.get("unfinished") == "no" and start == end and not ended:
            time.sleep(float(query["wait_s"]))
        versions = self.unfinished.get(number, [])
        is_open = end == len(lines) and query.get("unfinished") != "no" and bool(versions)
        return 200, {
            "lines": lines[start:end],
            "cursor": str(end),
            "ended": ended,
            "unfinished": [{**line, "unfinished": True} for line in versions.pop(0)] if is_open else [],
            "more": end < len(lines),
        }

    def _list(self, call: Call) -> Answer:
        jobs = [self.jobs[number] for number in sorted(self.jobs, reverse=True)]
        if "user" in call.query:
            user = {"me": "anna"}.get(call.query["user"], call.query["user"])
            jobs = [job for job in jobs if job["user"] == user]
        if "state" in call.query:
            jobs = [job for job in jobs if job["state"] == call.query["state"]]
        shown = [a_row(job) for job in jobs[: int(call.query.get("limit", 20))]]
        return 200, {"jobs": shown, "total": len(jobs)}

    def _status(self) -> dict[str, Any]:
        parts: dict[str, list[dict[str, Any]]] = {"running": [], "waiting": [], "done": []}
        for job in self.jobs.values():
            waits = job["state"] in ("preparing", "waiting")
            parts["done" if job["state"] == "ended" else "waiting" if waits else "running"].append(job)
        shown = {name: [a_summary(job) for job in jobs[:20]] for name, jobs in parts.items()}
        totals = {name: len(jobs) for name, jobs in parts.items()}
        return {
            "revision": self.revision,
            **shown,
            "totals": {**totals, "unapproved": len(self.people.unapproved)},
            "unapproved": self.people.unapproved,
            "notices": self.people.notices,
            "estimates": to_json(EstimateErrors()),
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: no waiting for a delayed ACK
    stub: StubHead

    def do_any(self) -> None:
        parts = urlsplit(self.path)
        body = self._body()
        call = Call(
            self.command,
            parts.path.removeprefix("/api/v1"),
            {key: values[0] for key, values in parse_qs(parts.query).items()},
            body,
            self.headers.get("Authorization"),
        )
        self.stub.calls.append(call)
        try:
            answer = self.stub.answer(call)
            check(call.method, call.path, *answer)
        except Problem as problem:
            answer = problem.status, problem.to_json()
        faults = self.stub.faults.get((call.method, call.path))
        if faults:
            faults.pop(0)(self, answer)
        else:
            self.send(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any

    def send(self, answer: Answer) -> None:
        status, body = answer
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if self.stub.protocol:
            self.send_header(HEADER, self.stub.protocol)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, format: str, *args: Any) -> None:
        pass


def drop(handler: Handler, answer: Answer) -> None:
    """The head did what was asked, but its answer is lost."""
    handler.close_connection = True


def cut(handler: Handler, answer: Answer) -> None:
    """Half an answer, then nothing."""
    data = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
    handler.send_response(answer[0])
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.close_connection = True


def cut_without_length(handler: Handler, answer: Answer) -> None:
    """Half an answer whose end cannot be told from a whole one's by HTTP."""
    handler.send_response(answer[0])
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.wfile.write(answer[1][: len(answer[1]) // 2])
    handler.close_connection = True


def redirect(url: str) -> Fault:
    def answer_elsewhere(handler: Handler, answer: Answer) -> None:
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer_elsewhere


def first(action: Callable[[], None]) -> Fault:
    """Something happens in the world just before the answer arrives."""

    def act_and_answer(handler: Handler, answer: Answer) -> None:
        action()
        handler.send(answer)

    return act_and_answer


class Server:
    """A stub head that listens while the `with` lasts; with a context, by HTTPS."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.stub = StubHead()
        self._context = context

    def __enter__(self) -> StubHead:
        handler = type("BoundHandler", (Handler,), {"stub": self.stub})
        self._server = QuietServer(("127.0.0.1", 0), handler)
        if self._context:
            # The handshake is for the request's own thread: a refused one must not stop the server.
            self._server.socket = self._context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "https" if self._context else "http"
        self.stub.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self.stub

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass

    def shutdown_request(self, request: Any) -> None:
        with suppress(OSError):
            super().shutdown_request(request)


A_SNAPSHOT = {
    "tree": "9c1e",
    "commit": "c0ffee",
    "remote": "https://git.example.org/lab/model.git",
    "remote_name": "origin",
    "branch": "main",
    "committed": "9c1e",
    "base": "c0ffee",
    "diff_lines": 0,
    "pack": None,
    "keeps_pointers": False,
    "dirty": False,
    "diff_files": 0,
    "diff_added": 0,
    "diff_removed": 0,
}


def a_record(number: int = 12, **fields: Any) -> dict[str, Any]:
    """A job's record; options of the job are given by their own names."""
    options = JobOptions(**{name: fields.pop(name) for name in OPTIONS if name in fields})
    return {
        "number": number,
        "index": None,
        "elements": None,
        "failed": [],
        "sweep": {},
        "title": "First light",
        "user": "anna",
        "request": "[]",
        "state": "running",
        "outcome": None,
        "letters": "RUN",
        "reason": "",
        "created_at": SETTLED_AT,
        "since": time.time() - 200,
        "starts": None,
        "gpu_percent": None,
        "memory_percent": None,
        "cpu_percent": None,
        "memory_mib": None,
        "keep": False,
        "exec": "owner",
        "options": to_json(options),
        "reruns": None,
        "attempt": 1,
        "groups": [],
        "variables": [],
        "snapshot": {**A_SNAPSHOT},
        "result": None,
        "events": [],
        "processes": [],
        "ends_at": None,
        "delay": "",
        **fields,
    }


def a_summary(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in JobSummary.__struct_encode_fields__}


def a_row(record: dict[str, Any]) -> dict[str, Any]:
    """A row of a list, with what was asked for and what was not."""
    more = {"run_s": record.get("run_s"), "secrets": record.get("secrets", []), "result": record["result"]}
    return {**a_summary(record), **more, "env": record["options"]["env"]}


def an_ended(outcome: str = "succeeded") -> dict[str, Any]:
    letters = {"succeeded": "SUC", "failed": "FAI", "stopped": "STP", "lost": "LOS"}[outcome]
    return {"state": "ended", "outcome": outcome, "letters": letters}


def a_process(group: int = 0, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "attempt": 1,
        "group": group,
        "index": index,
        "rank": index,
        "node": "n0",
        "host": "127.0.0.1",
        "state": "ended",
        "exit_code": 0,
        "signal": None,
        "killed_by": None,
        "oom": False,
        "image": None,
        "reason": "",
        "started_at": SETTLED_AT,
        "ended_at": SETTLED_AT + 60,
        "resources": [],
        **fields,
    }


def lines(*texts: str, source: str = "worker 0") -> list[dict[str, Any]]:
    return [{"at": SETTLED_AT + i, "source": source, "text": text} for i, text in enumerate(texts)]
