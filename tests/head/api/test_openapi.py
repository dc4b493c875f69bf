"""The OpenAPI document: complete, true, and served with a page to try it."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import pit_server.api.routes
from pit_protocol.version_check import HEADERS
from pit_server.api.http.guard import Role
from pit_server.api.openapi import document
from pit_server.context import Head
from tests.support.clusters.head import Person, Worker

ROUTES = Path(pit_server.api.routes.__file__).parent
ALL = list(HealthCheck)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# How routes read their query string.
READS = r'(?:args\.get\(|args\[|number_argument\(|job_argument\()"(\w+)"|"(\w+)" (?:not )?in request\.args'


@pytest.fixture
def database_url() -> str:
    return ""  # routes are the same on PostgreSQL


@pytest.fixture
def api(app: Flask) -> document.Json:
    found = app.test_client().get("/api/v1/openapi.json").json
    assert found is not None
    return dict(found)


def operations(api: document.Json) -> Iterator[tuple[str, document.Json]]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_route_is_in_the_document(app: Flask, api: document.Json) -> None:
    routes = {
        f"{method} {rule.rule}"
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/api/v1/")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    shown = {re.sub(r"<(?:[a-z]+:)?([a-z0-9_]+)>", r"{\1}", route) for route in routes}
    assert {name for name, _ in operations(api)} == shown


def test_every_route_says_what_it_does_and_who_may(api: document.Json) -> None:
    for name, operation in operations(api):
        assert 5 <= len(operation["summary"]) <= 90, name
        assert operation["x-role"], name
        answers = [answer for status, answer in operation["responses"].items() if status != "default"]
        assert all(answer["content"] for answer in answers), f"{name} does not say what it sends"


def test_operations_have_names_of_their_own(api: document.Json) -> None:
    names = [operation["operationId"] for _, operation in operations(api)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("module", sorted(ROUTES.rglob("*.py")), ids=lambda path: path.stem)
def test_a_module_describes_every_parameter_that_it_reads(app: Flask, module: Path) -> None:
    read = {a or b for a, b in re.findall(READS, module.read_text())}
    views = [view for view in app.view_functions.values() if inspect.getsourcefile(view) == str(module)]
    described = {
        param.name for view in views if hasattr(view, "description") for param in view.description.query
    }
    assert read - described == set()


def test_the_types_of_the_protocol_are_the_schemas(api: document.Json) -> None:
    schemas = api["components"]["schemas"]
    assert schemas["Login"]["required"] == ["name", "password"]
    answer = api["paths"]["/api/v1/jobs/{number}"]["get"]["responses"]["200"]
    assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/JobRecord"}
    assert "ends_at" in schemas["JobRecord"]["properties"]


@pytest.mark.parametrize("path", ["docs", "docs/page.js", "docs/page.css"])
def test_the_page_loads_nothing_from_elsewhere(app: Flask, path: str) -> None:
    answer = app.test_client().get(f"/api/v1/{path}")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status_code == 200
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "//" not in re.sub(r"^ *// .*$|[^:]// .*$", "", answer.text, flags=re.MULTILINE)


@pytest.fixture
def full_head(app: Flask, head: Head, a_user: Callable[..., Person], a_node: Callable[..., Worker]) -> Person:
    """A head that has one of each, so that answers have something in them."""
    admin = a_user("root", admin=True)
    a_node("n0")
    assert admin.put("/groups/lab", title="The lab").status_code == 201
    assert admin.put("/aliases/gtx", name="GeForce GTX 1070").status_code == 201
    assert admin.call("PUT", "/files/home/a?directory=yes").status_code == 201
    return admin


def test_answers_to_any_request_are_as_described(app: Flask, full_head: Person) -> None:
    """Requests of all kinds, good and bad, made from the document."""
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)
    headers = {**HEADERS, "Authorization": f"Bearer {full_head.token}"}
    calls, wrong = 0, []
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.definition.raw["x-role"] in (Role.NODE, Role.JOIN):
            continue  # needs another token; bodies are no JSON

        @settings(max_examples=4, database=None, deadline=None, derandomize=True, suppress_health_check=ALL)
        @given(case=operation.as_strategy())
        def call(case: schemathesis.Case) -> None:
            nonlocal calls
            case.query = {name: value for name, value in (case.query or {}).items() if name != "wait_s"}
            calls += 1
            case.call_and_validate(headers=headers, checks=CHECKS)

        try:
            call()
        except FailureGroup as group:
            wrong.append(f"{operation.label}: {[str(error) for error in group.exceptions]}")
    assert wrong == []
    assert calls > 150


def test_a_client_that_has_the_answer_gets_304(full_head: Person) -> None:
    first = full_head.get("/nodes")
    again = full_head.get("/nodes", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    full_head.patch("/nodes/n0", address="10.0.0.3")
    changed = full_head.get("/nodes", headers={"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != first.headers["ETag"]


def test_pages_of_a_listing_lead_to_the_next(full_head: Person, a_user: Callable[..., Person]) -> None:
    for name in ("anna", "ben", "carl"):
        a_user(name)
    address, names = "/users?limit=2", []
    while address:
        answer = full_head.get(address)
        names.append([user["name"] for user in answer.json["users"]])
        link = re.match('</api/v1(.*)>; rel="next"', answer.headers.get("Link", ""))
        address = link[1] if link else ""
    assert names == [["anna", "ben"], ["carl", "root"]]


def test_a_page_after_something_that_is_gone_is_a_conflict(full_head: Person) -> None:
    answer = full_head.get("/users?after=nobody")
    assert (answer.status_code, answer.json["code"]) == (409, "no_such_page")
