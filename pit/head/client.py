"""Client of the head's API: one method per route."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import requests

from pit.args.entities import Entity
from pit.head.http_session import ANSWER_S, HeadSession
from pit_protocol.answers.files import TrashEmptied, TrashEntry, TrashList, Upload, Usage
from pit_protocol.answers.jobs import (
    DiffStat,
    ElementList,
    JobList,
    JobRecord,
    JobRemoved,
    LogBatch,
    Status,
    VariablesDiff,
)
from pit_protocol.answers.nodes import Alias, AliasList, Node, NodeAdded, NodeList, NodeRemoved
from pit_protocol.answers.queue import Queue
from pit_protocol.answers.sites import Site, SiteAdded, SiteList
from pit_protocol.answers.snapshots import MissingAnswer, OfferAnswer
from pit_protocol.answers.users import (
    About,
    AuditLog,
    AwaitingApproval,
    Group,
    GroupList,
    IssuedToken,
    Removed,
    SetupCodeChecked,
    TokenList,
    User,
    UserList,
)
from pit_protocol.answers.why import Why
from pit_protocol.arrays.numbers import job_name
from pit_protocol.messages.request_bodies import Login, Registration, SetupCode
from pit_protocol.messages.submission import MissingObjects, Offer, Submission
from pit_protocol.problem import Problem
from pit_protocol.wire import to_json

MEASURE_S = 600.0  # for a head that measures its disk
ACCEPTED = 202
ONES_OWN = (403, 404, 409)  # problems of one entity; a command goes on with the others that it was given

Params = Mapping[str, str | int | float | None]
Record = User | Group | Alias | Node | Site | JobRecord
RECORDS: Mapping[str, type[Record]] = {
    "user": User,
    "group": Group,
    "alias": Alias,
    "node": Node,
    "site": Site,
    "job": JobRecord,
}
REMOVED: Mapping[str, type[JobRemoved | Removed]] = {"user": Removed, "group": Removed, "job": JobRemoved}


class Head(HeadSession):
    """The routes of the head, with types."""

    def about(self) -> About:
        return self.ask(About, "GET", "/")

    def log_in(self, login: Login) -> IssuedToken:
        return self.ask(IssuedToken, "POST", "/login", json=to_json(login))

    def register(self, registration: Registration) -> IssuedToken | AwaitingApproval:
        response = self.call("POST", "/users", json=to_json(registration))
        if response.status_code == ACCEPTED:
            return self.decode(AwaitingApproval, response)
        return self.decode(IssuedToken, response)

    def check_setup_code(self, code: str) -> None:
        self.ask(SetupCodeChecked, "POST", "/setup-code", json=to_json(SetupCode(code)))

    def me(self) -> User:
        return self.ask(User, "GET", "/me")

    def users(self) -> UserList:
        return self.ask(UserList, "GET", "/users")

    def groups(self) -> GroupList:
        return self.ask(GroupList, "GET", "/groups")

    def aliases(self) -> AliasList:
        return self.ask(AliasList, "GET", "/aliases")

    def queue(self) -> Queue:
        return self.ask(Queue, "GET", "/queue")

    def nodes(self) -> NodeList:
        return self.ask(NodeList, "GET", "/nodes")

    def sites(self) -> SiteList:
        return self.ask(SiteList, "GET", "/sites")

    def tokens(self, filters: Params) -> TokenList:
        return self.ask(TokenList, "GET", "/tokens", params=filters)

    def audit(self, filters: Params) -> AuditLog:
        return self.ask(AuditLog, "GET", "/audit", params=filters)

    def trash(self, entity: Entity | None = None) -> TrashList:
        """The trash, or what it has of one job, user or group."""
        params = {"kind": entity.kind, "domain": str(entity)} if entity else {}
        return self.ask(TrashList, "GET", "/trash", params=params)

    def restore(self, number: int) -> TrashEntry:
        return self.ask(TrashEntry, "POST", f"/trash/{number}/restore")

    def usage(self) -> Usage:
        return self.ask(Usage, "GET", "/usage", wait_s=MEASURE_S)

    def user(self, name: str) -> User:
        return self.ask(User, "GET", Entity("user", name).path)

    def group(self, name: str) -> Group:
        return self.ask(Group, "GET", Entity("group", name).path)

    def alias(self, name: str) -> Alias:
        return self.ask(Alias, "GET", Entity("alias", name).path)

    def node(self, name: str) -> Node:
        return self.ask(Node, "GET", Entity("node", name).path)

    def site(self, name: str) -> Site:
        return self.ask(Site, "GET", Entity("site", name).path)

    def record(self, entity: Entity) -> Record:
        return self.ask(RECORDS[entity.kind], "GET", entity.path)

    def add(self, entity: Entity, properties: Mapping[str, str]) -> Record:
        """Add a user, group or alias."""
        return self.ask(RECORDS[entity.kind], "PUT", entity.path, json={"set": dict(properties)})

    def add_node(self, entity: Entity, properties: Mapping[str, str], *, again: bool = False) -> NodeAdded:
        """Add a node; `again` makes a new join code for a known one."""
        params = {"again": "yes" if again else None}
        return self.ask(NodeAdded, "PUT", entity.path, json={"set": dict(properties)}, params=params)

    def add_site(self, entity: Entity, properties: Mapping[str, str], *, again: bool = False) -> SiteAdded:
        """Add a site; `again` makes a new join code for a known one."""
        params = {"again": "yes" if again else None}
        return self.ask(SiteAdded, "PUT", entity.path, json={"set": dict(properties)}, params=params)

    def change(self, entity: Entity, properties: Mapping[str, str]) -> Record:
        return self.ask(RECORDS[entity.kind], "PATCH", entity.path, json={"set": dict(properties)})

    def remove(self, entity: Entity) -> TrashEntry | None:
        """Remove something; returns its entry in the trash, if it went there."""
        if kind := REMOVED.get(entity.kind):
            return self.ask(kind, "DELETE", entity.path).trash
        self.call("DELETE", entity.path).close()
        return None

    def purge(self, number: int) -> TrashEntry:
        """Delete an entry of the trash for good."""
        return self.ask(TrashEntry, "DELETE", f"/trash/{number}")

    def empty_trash(self) -> int:
        """Delete one's own files and jobs in the trash for good; returns how many entries there were."""
        return self.ask(TrashEmptied, "DELETE", "/trash").count

    def remove_lost_node(self, path: str) -> list[int]:
        """Remove a node that does not come back; returns the numbers of the jobs that are lost with it."""
        return self.ask(NodeRemoved, "DELETE", path, params={"lost": "yes"}).lost

    def add_group(self, path: str, group: str) -> None:
        self.call("PUT", f"{path}/groups/{quote(group, safe='')}").close()

    def remove_group(self, path: str, group: str) -> None:
        self.call("DELETE", f"{path}/groups/{quote(group, safe='')}").close()

    def uploaded(self, digest: str) -> Upload:
        """How much of an upload the head has."""
        return self.ask(Upload, "GET", f"/uploads/{digest}")

    def upload(self, digest: str, piece: bytes, offset: int, size: int) -> Upload:
        """Send a piece of an upload of `size` bytes."""
        headers = {"Content-Type": "application/octet-stream"}
        params = {"offset": offset, "size": size}
        try:
            return self.ask(Upload, "PUT", f"/uploads/{digest}", data=piece, headers=headers, params=params)
        except Problem as problem:
            if problem.code != "wrong_offset":
                raise
            return self.uploaded(digest)

    def offer(self, offer: Offer) -> OfferAnswer:
        return self.ask(OfferAnswer, "POST", "/snapshots/offer", json=to_json(offer))

    def missing(self, asked: MissingObjects) -> MissingAnswer:
        return self.ask(MissingAnswer, "POST", "/snapshots/missing", json=to_json(asked))

    def submit(self, submission: Submission) -> JobRecord:
        return self.ask(JobRecord, "POST", "/jobs", json=to_json(submission))

    def jobs(self, filters: Params) -> JobList:
        return self.ask(JobList, "GET", "/jobs", params=filters)

    def job(self, number: int, wait_s: float = 0, delay: str | None = None) -> JobRecord:
        """A job; with `wait_s` when it has ended, or when something else than `delay` delays it."""
        params = {"wait_s": wait_s or None, "delay": delay}
        return self.ask(JobRecord, "GET", f"/jobs/{job_name(number)}", params=params, wait_s=wait_s)

    def elements(self, number: int, *, failed: bool = False) -> ElementList:
        """The elements of an array that have begun, or those that failed."""
        params = {"failed": "yes" if failed else None}
        return self.ask(ElementList, "GET", f"/jobs/{job_name(number)}/elements", params=params)

    def why(self, number: int) -> Why:
        return self.ask(Why, "GET", f"/jobs/{job_name(number)}/why")

    def stop(self, number: int) -> JobRecord:
        return self.ask(JobRecord, "POST", f"/jobs/{job_name(number)}/stop")

    def log(self, number: int, params: Params, wait_s: float = 0) -> LogBatch:
        asked = {**params, "wait_s": wait_s or None}
        return self.ask(LogBatch, "GET", f"/jobs/{job_name(number)}/log", params=asked, wait_s=wait_s)

    def raw_log(self, number: int, params: Params, wait_s: float = 0) -> requests.Response:
        """A part of a process's output, with the headers `LOG_OFFSET` and `LOG_ENDED`."""
        asked = {**params, "wait_s": wait_s or None}
        return self.call("GET", f"/jobs/{job_name(number)}/log/raw", params=asked, answer_s=ANSWER_S + wait_s)

    def status(
        self, seen: int | None = None, wait_s: float = 0, *, limit: int | None = None, mine: bool = False
    ) -> Status:
        params = {"seen": seen, "wait_s": wait_s or None, "limit": limit, "mine": "yes" if mine else None}
        return self.ask(Status, "GET", "/status", params=params, wait_s=wait_s)

    @contextmanager
    def archive(self, number: int, offset: int = 0) -> Iterator[requests.Response]:
        """The open response with the archive's bytes from `offset` on; read it with `chunks`."""
        with self._stream(f"/jobs/{job_name(number)}/archive", params={"offset": offset or None}) as response:
            yield response

    @contextmanager
    def code(self, number: int) -> Iterator[requests.Response]:
        """The open response with a tar of the job's code as submitted; read it with `chunks`."""
        with self._stream(f"/jobs/{job_name(number)}/code") as response:
            yield response

    @contextmanager
    def diff(self, number: int, to: int | None, *, binary: bool) -> Iterator[requests.Response]:
        """The open response with a patch: a job's uncommitted changes, or its difference to another job."""
        params = {"to": _name(to), "binary": "yes" if binary else "no"}
        with self._stream(f"/jobs/{job_name(number)}/diff", params=params) as response:
            yield response

    def diff_stat(self, number: int, to: int | None) -> DiffStat:
        return self.ask(
            DiffStat, "GET", f"/jobs/{job_name(number)}/diff", params={"to": _name(to), "stat": "yes"}
        )

    def compare_variables(self, number: int, to: int) -> VariablesDiff:
        return self.ask(
            VariablesDiff, "GET", f"/jobs/{job_name(number)}/variables", params={"to": job_name(to)}
        )

    def find_data(self, path: str) -> None:
        """Check that WebDAV has something at `path`; raises a Problem if not."""
        self.call("PROPFIND", f"/dav/{quote(path)}", prefix="", headers={"Depth": "0"}).close()

    def _stream(self, path: str, **options: Any) -> requests.Response:
        return self.call("GET", path, headers={"Accept-Encoding": "identity"}, stream=True, **options)


def _name(number: int | None) -> str | None:
    return None if number is None else job_name(number)
