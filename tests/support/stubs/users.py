"""The stub head's users, groups, aliases, nodes, tokens and audit."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from pit_protocol.problem import Problem
from tests.support.stubs.trash import StubTrash

SETTLED_AT = 1_765_000_000.0
JOIN_CODE = "join_7_code"
MANDATORY = {"users": "full_name", "aliases": "name"}
KNOWN = {
    "users": {"full_name", "email", "password", "admin", "active", "autoshare"},
    "groups": {"title"},
    "aliases": {"name"},
    "nodes": {"state", "address", "slots", "label.rack"},
    "jobs": {"title"},
}

Json = dict[str, Any]
Answer = tuple[int, Any]


@dataclass
class People:
    """Tests read and set its state directly."""

    token: str
    registration: str = "open"
    needs_setup: bool = False
    setup_code: str = "blue-tree"
    unapproved: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    passwords: dict[str, str] = field(default_factory=dict)
    records: dict[str, dict[str, Json]] = field(
        default_factory=lambda: {"users": {"anna": a_user()}, "groups": {}, "aliases": {}, "nodes": {}}
    )
    members: set[tuple[str, str]] = field(default_factory=set)  # path of a thing, and its group
    tokens: list[Json] = field(default_factory=list)
    entries: list[Json] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)  # paths that were deleted
    trash: StubTrash = field(default_factory=StubTrash)
    busy: list[str] = field(default_factory=list)  # reasons for which the next removals are refused
    lost: list[int] = field(default_factory=list)  # jobs that are lost with a removed node

    def about(self) -> Json:
        modes = {"registration": self.registration, "needs_setup": self.needs_setup}
        return {"name": "pit", "version": "0.1.0", "cluster": "c1", **modes}

    def log_in_or_register(self, path: str, body: bytes) -> Answer:
        """Log in or register."""
        asked = json.loads(body)
        if path == "/setup-code" and asked["setup_code"] == self.setup_code:
            return 200, {"valid": True}
        if path == "/login":
            if self.passwords.get(asked["name"]) != asked["password"]:
                raise Problem("bad_login", "wrong user name or password", status=401)
            return 201, self._issued(asked["name"])
        if self.needs_setup and asked.get("setup_code") != self.setup_code:
            raise Problem("bad_setup_code", "that is not the setup code", "look again", status=403)
        if self.registration == "closed" and not self.needs_setup:
            raise Problem("registration_closed", "this head registers nobody", status=403)
        self.passwords[asked["name"]] = asked["password"]
        self.records["users"][asked["name"]] = a_user(asked["name"], full_name=asked["full_name"])
        if self.registration == "approve" and not self.needs_setup:
            return 202, {"name": asked["name"], "message": "an admin has to approve"}
        self.needs_setup = False
        return 201, self._issued(asked["name"])

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Answer | None:
        """None for a route that is not about users, groups, aliases, nodes, tokens or the audit."""
        if path == "/tokens":
            return 200, {"tokens": self.tokens}
        if path == "/audit":
            return 200, {"entries": self.entries}
        if membership := re.fullmatch(r"(/\w+/.+)/groups/([^/]+)", path):
            return self._member(method, membership[1], membership[2])
        if path.startswith("/tokens/") and method == "DELETE":
            self.gone.append(path)
            return 200, {"id": 7}
        folder, _, name = path[1:].partition("/")
        if folder not in self.records:
            return None
        if not name:
            return 200, {folder: list(self.records[folder].values())}
        return self._record(method, folder, name, query, body)

    def _record(self, method: str, folder: str, name: str, query: dict[str, str], body: bytes) -> Answer:
        records = self.records[folder]
        name = "anna" if (folder, name) == ("users", "me") else name
        kind = "alias" if folder == "aliases" else folder[:-1]
        if method == "PUT":
            if name in records and "again" not in query:
                raise Problem("exists", f"there is a {kind} {name} already", status=409)
            return self._add(folder, name, _properties(folder, body))
        if name not in records:
            raise Problem(f"no_such_{kind}", f"there is no {kind} {name}", status=404)
        if method == "DELETE":
            if self.busy:
                raise Problem("in_use", self.busy.pop(0), status=409)
            del records[name]
            self.gone.append(f"/{folder}/{name}")
            if folder == "nodes":
                return 200, {"name": name, "lost": self.lost}
            entry = self.trash.add(f"{kind}:{name}") if folder in ("users", "groups") else None
            return 200, {"name": name, "trash": entry}
        if method == "PATCH":
            _set(records[name], _properties(folder, body))
        return 200, records[name]

    def _add(self, folder: str, name: str, properties: Json) -> Answer:
        if folder == "nodes":
            record = self.records["nodes"].setdefault(name, a_node(name, state="new"))
            _set(record, properties)
            return 201, {"node": record, "join_code": JOIN_CODE, "expires_at": SETTLED_AT}
        wanted = MANDATORY.get(folder)
        if wanted and wanted not in properties:
            raise Problem("missing_property", f"{wanted} is missing", status=422)
        if folder == "users":
            self.passwords[name] = properties.pop("password", "")
            record = a_user(name)
            _set(record, properties)
        elif folder == "aliases":
            record = {"name": name, "model": properties["name"]}
        else:
            record = a_group(name, **properties)
        self.records[folder][name] = record
        return 201, record

    def _member(self, method: str, path: str, group: str) -> Answer:
        (self.members.add if method == "PUT" else self.members.discard)((path, group))
        return 200, {}

    def _issued(self, name: str) -> Json:
        return {"token": self.token, "name": name, "token_id": 7, "expires_at": SETTLED_AT}


def _properties(folder: str, body: bytes) -> Json:
    properties: Json = json.loads(body)["set"]
    properties.pop("old_password", None)
    for name in properties:
        if name not in KNOWN[folder]:
            known = ", ".join(sorted(KNOWN[folder]))
            raise Problem(
                "unknown_property", f"there is no property {name}", f"there are {known}", status=422
            )
    return properties


def _set(record: Json, properties: Json) -> None:
    """Store properties, which come as texts, as the types that a record has."""
    for name, text in properties.items():
        if name == "name":
            record["model"] = text
        elif name.startswith("label."):
            record["labels"][name.removeprefix("label.")] = text
        elif name in ("admin", "active"):
            record[name] = text == "yes"
        elif name == "autoshare":
            record[name] = [group for group in text.split(",") if group]
        elif name == "slots":
            record[name] = int(text)
        elif name != "password":
            record[name] = text


def a_user(name: str = "anna", **fields: Any) -> Json:
    return {
        "name": name,
        "full_name": "Anna A.",
        "groups": ["ml", "students"],
        "email": "anna@example.org",
        "admin": False,
        "active": True,
        "state": "active",
        "autoshare": ["students"],
        "git": [],
        "uid": 2001,
        "quota": "",
        "created_at": SETTLED_AT,
        **fields,
    }


def a_group(name: str = "students", **fields: Any) -> Json:
    return {"name": name, "title": "", "nodes": [], "members": [], "gid": 3001, "quota": "", **fields}


def a_token(number: int = 7, **fields: Any) -> Json:
    return {
        "id": number,
        "user": "anna",
        "label": "laptop",
        "created_at": SETTLED_AT,
        "expires_at": SETTLED_AT + 86400,
        "last_used_at": None,
        "current": False,
        **fields,
    }


def a_resource(index: int = 0, **fields: Any) -> Json:
    return {
        "index": index,
        "model": "GeForce GTX 1070",
        "kind": "gtx1070",
        "aliases": ["gtx1070"],
        "unit": f"GPU-{index}",
        "memory_mib": 8192,
        "pci": f"0000:0{index}:00.0",
        "trouble": "",
        "free": not fields.get("trouble") and fields.get("job") is None,
        "groups": [],
        "job": None,
        "user": "anna" if fields.get("job") else "",
        "usable": True,
        **fields,
    }


def a_node(name: str = "n0", **fields: Any) -> Json:
    return {
        "name": name,
        "state": "online",
        "runtime": "docker",
        "run_as": "user",
        "shared_account": False,
        "trouble": "",
        "epoch": 1,
        "address": "127.0.0.1",
        "cores": 8,
        "memory_mib": 65536,
        "slots": 16,
        "free_slots": 15,
        "since": SETTLED_AT,
        "labels": {"rack": "r9"},
        "groups": [],
        "resources": [a_resource(0, job=12), a_resource(1)],
        "free_cores": 6.5,
        "free_memory_mib": 49152,
        "reason": "",
        "maintenance": "",
        "host": "",
        "ends_at": None,
        "jobs": [],
        **fields,
    }
