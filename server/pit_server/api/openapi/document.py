"""The OpenAPI 3.1 document of all routes below /api/v1, made from the views themselves."""

import inspect
import re
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from flask import Flask, Response
from msgspec import Struct
from werkzeug.routing import Rule

from pit_protocol import API_PREFIX, __version__
from pit_server.api.http.description import Description, Param
from pit_server.api.http.guard import Role

Json = dict[str, Any]
METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE")
REFERENCE = "#/components/schemas/{name}"
PROBLEM: Json = {"$ref": "#/components/responses/Problem"}
WHO = {
    Role.ANYONE: "Anyone may call it, without a token.",
    Role.USER: "Needs the token of a user.",
    Role.ADMIN: "Needs the token of an admin.",
    Role.NODE: "Needs the token of a node.",
    Role.SITE: "Needs the token of a site's agent.",
    Role.JOIN: "Needs a join code.",
}
SCHEMAS: dict[str, Json] = {
    "job": {"type": "string", "pattern": r"^[0-9]{1,15}(\.[0-9]{1,6})?$"},
    "int": {"type": "integer", "minimum": 0},
    "where": {"type": "string", "minLength": 1},
}
MEANINGS = {
    "job": "the number of a job: `190`, or `190.7` for an element of an array",
    "where": "a domain and a path below it, such as `home/data/a.txt`; slashes stay as they are",
}


class ProblemDocument(Struct):
    """An error; `message` is a sentence for people, `hint` says what to do."""

    code: str
    message: str
    hint: str
    status: int


def make(app: Flask) -> Json:
    """Describe every route of the API."""
    rules = sorted(_rules(app), key=lambda rule: rule.rule)
    types: set[type[Struct]] = {ProblemDocument}
    for rule in rules:
        types |= _structs(app.view_functions[rule.endpoint])
    _, schemas = msgspec.json.schema_components(
        sorted(types, key=lambda kind: kind.__name__), ref_template=REFERENCE
    )
    paths: dict[str, Json] = {}
    used: Counter[str] = Counter()
    for rule in rules:
        for method in METHODS:
            if method in (rule.methods or ()):
                used[rule.endpoint] += 1
                path = paths.setdefault(_path(rule), {})
                path[method.lower()] = _operation(app, rule, used[rule.endpoint])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pit",
            "version": __version__,
            "summary": "The HTTP API of a pit head",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {"Problem": _answer("an error", "application/problem+json", ProblemDocument)},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _rules(app: Flask) -> Iterator[Rule]:
    return (rule for rule in app.url_map.iter_rules() if rule.rule.startswith(f"{API_PREFIX}/"))


def _path(rule: Rule) -> str:
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)


def _operation(app: Flask, rule: Rule, count: int) -> Json:
    view = app.view_functions[rule.endpoint]
    role: Role = getattr(view, "role", Role.ADMIN)
    told: Description = getattr(view, "description", Description())
    text = inspect.getdoc(view) or ""
    summary, _, more = text.partition("\n\n")
    found: Json = {
        "operationId": rule.endpoint if count == 1 else f"{rule.endpoint}.{count}",
        "tags": [rule.rule.removeprefix(f"{API_PREFIX}/").split("/")[0] or "head"],
        "summary": " ".join(summary.split()).rstrip("."),
        "description": "\n\n".join(filter(None, (more, WHO[role]))),
        "x-role": str(role),
        "security": [] if role is Role.ANYONE else [{"token": []}],
        "parameters": [*_path_parameters(rule), *(_parameter(param) for param in told.query)],
        "responses": _responses(view, told),
    }
    if told.body is not None:
        schema = _schema(told.body)
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    elif told.takes:
        found["requestBody"] = {"required": True, "content": {told.takes: {}}}
    return found


def _path_parameters(rule: Rule) -> Iterator[Json]:
    for converter, name in re.findall(r"<(?:(\w+):)?(\w+)>", rule.rule):
        schema = SCHEMAS.get(converter, {"type": "string", "minLength": 1})
        found: Json = {"name": name, "in": "path", "required": True, "schema": schema}
        yield found | ({"description": MEANINGS[converter]} if converter in MEANINGS else {})


def _parameter(param: Param) -> Json:
    schema: Json = {"type": param.kind} | ({"minimum": 0} if param.kind != "string" else {})
    if param.values:
        schema["enum"] = list(param.values)
    found: Json = {"name": param.name, "in": "query", "description": param.meaning, "schema": schema}
    return found | ({"required": True} if param.required else {})


def _responses(view: Any, told: Description) -> Json:
    structs = sorted(_answers(view), key=lambda kind: kind.__name__)
    content: Json = {media: {} for media in told.sends}
    if structs:
        schemas = [_schema(kind) for kind in structs]
        content["application/json"] = {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
    answers: Json = {
        str(status): {"description": HTTPStatus(status).phrase, "content": content} for status in told.status
    }
    return {**answers, "default": PROBLEM}


def _answer(description: str, media: str, kind: type[Struct]) -> Json:
    return {"description": description, "content": {media: {"schema": _schema(kind)}}}


def _schema(kind: Any) -> Json:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return schema


def _structs(view: Any) -> set[type[Struct]]:
    told: Description = getattr(view, "description", Description())
    body = {told.body} if isinstance(told.body, type) and issubclass(told.body, Struct) else set()
    return _answers(view) | body


def _answers(view: Any) -> set[type[Struct]]:
    """The types that a view returns as JSON."""
    hint = get_type_hints(view).get("return")
    if get_origin(hint) is tuple:
        hint = get_args(hint)[0]
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return {option for option in options if option is not Response and issubclass(option, Struct)}
