"""The types of the stub head's answers: a stub that drifts from the protocol fails the test that uses it."""

import json
import re
from typing import Any

from msgspec import Struct

from pit_protocol.answers.files import TrashEmptied, TrashEntry, TrashList, Upload
from pit_protocol.answers.jobs import JobList, JobRecord, JobRemoved, LogBatch, Status, VariablesDiff
from pit_protocol.answers.nodes import Alias, AliasList, Node, NodeAdded, NodeList, NodeRemoved
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
    TokenRevoked,
    User,
    UserList,
)
from pit_protocol.problem import Problem
from pit_protocol.wire import from_json, to_json

# Method, path and status; the first that matches counts.
KINDS: tuple[tuple[str, type[Struct]], ...] = (
    (r"GET / 200", About),
    (r"POST /login 201", IssuedToken),
    (r"POST /setup-code 200", SetupCodeChecked),
    (r"POST /users 201", IssuedToken),
    (r"POST /users 202", AwaitingApproval),
    (r"GET /me 200", User),
    (r"GET /status 200", Status),
    (r"GET /users 200", UserList),
    (r"GET /groups 200", GroupList),
    (r"GET /aliases 200", AliasList),
    (r"GET /nodes 200", NodeList),
    (r"GET /tokens 200", TokenList),
    (r"GET /audit 200", AuditLog),
    (r"GET /trash 200", TrashList),
    (r"DELETE /trash 200", TrashEmptied),
    (r"DELETE /trash/\d+ 200", TrashEntry),
    (r"POST /trash/\d+/restore 200", TrashEntry),
    (r"DELETE /jobs/\d+ 200", JobRemoved),
    (r"DELETE /tokens/[^/]+ 200", TokenRevoked),
    (r"DELETE /nodes/[^/]+ 200", NodeRemoved),
    (r"DELETE /(users|groups|aliases)/[^/]+ 200", Removed),
    (r"PUT /nodes/[^/]+ 201", NodeAdded),
    (r"(GET|PUT|PATCH) /users/[^/]+ \d+", User),
    (r"(GET|PUT|PATCH) /groups/[^/]+ \d+", Group),
    (r"(GET|PUT|PATCH) /aliases/[^/]+ \d+", Alias),
    (r"(GET|PATCH) /nodes/[^/]+ 200", Node),
    (r"(GET|PUT) /uploads/\w+ \d+", Upload),
    (r"POST /snapshots/offer 200", OfferAnswer),
    (r"POST /snapshots/missing 200", MissingAnswer),
    (r"POST /jobs 20[01]", JobRecord),
    (r"GET /jobs 200", JobList),
    (r"(GET|PATCH) /jobs/\d+ 200", JobRecord),
    (r"POST /jobs/\d+/stop 200", JobRecord),
    (r"GET /jobs/\d+/log 200", LogBatch),
    (r"GET /jobs/\d+/variables 200", VariablesDiff),
)
# Of these the client reads no body, or one that is not JSON.
UNTYPED = r"(PUT|DELETE) /\w+/.+/groups/[^/]+ 200|GET /jobs/\d+/(archive|code|diff) 200"


def check(method: str, path: str, status: int, body: Any) -> None:
    """Raise a Problem unless the body is exactly what its type says: no field more, none less."""
    if status >= 300:
        return
    route = f"{method} {path} {status}"
    kind = next((kind for pattern, kind in KINDS if re.fullmatch(pattern, route)), None)
    if kind is None:
        if not re.fullmatch(UNTYPED, route):
            raise Problem("stub_drift", f"the stub head's contract has no type for {route}", status=500)
        return
    plain = json.loads(body if isinstance(body, bytes) else json.dumps(body))
    try:
        exact = json.loads(json.dumps(to_json(from_json(kind, plain))))
    except Problem as problem:
        raise Problem("stub_drift", f"{route}: {problem.message}", status=500) from problem
    wrong = sorted(name for name in exact.keys() | plain.keys() if exact.get(name) != plain.get(name))
    if wrong:
        raise Problem("stub_drift", f"{route}: not exactly {kind.__name__}: {', '.join(wrong)}", status=500)
