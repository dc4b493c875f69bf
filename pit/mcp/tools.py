"""The tools that agents get: what they take, what they do, and whether that changes anything."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pit.client import Client
from pit_protocol.job_options import OPTIONS
from pit_protocol.problem import Problem
from pit_protocol.wire import to_json

MOST_LINES, MOST_JOBS, MOST_TEXT = 1000, 100, 100_000
KINDS: Mapping[str, type | tuple[type, ...]] = {"string": str, "integer": int, "object": dict}


@dataclass(frozen=True)
class Param:
    kind: str  # `string`, `integer` or `object`
    meaning: str
    is_required: bool = False


@dataclass(frozen=True)
class Tool:
    name: str
    meaning: str
    run: Callable[..., dict[str, Any]]  # with the client and the arguments
    params: Mapping[str, Param] = field(default_factory=dict)
    writes: bool = False

    def describe(self) -> dict[str, Any]:
        """The tool as the protocol lists it."""
        schema = {
            "type": "object",
            "properties": {
                name: {"type": param.kind, "description": param.meaning}
                for name, param in self.params.items()
            },
            "required": [name for name, param in self.params.items() if param.is_required],
            "additionalProperties": False,
        }
        hints = {
            "readOnlyHint": not self.writes,
            "destructiveHint": self.name == "stop",
            "openWorldHint": True,
        }
        return {"name": self.name, "description": self.meaning, "inputSchema": schema, "annotations": hints}


def list_tools(*, writes: bool) -> list[Tool]:
    """The tools that read, and with `writes` also those that change something."""
    return [tool for tool in TOOLS if writes or not tool.writes]


def call(tool: Tool, client: Client, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool finds; a Problem if it cannot, or if the arguments do not fit."""
    for name, value in arguments.items():
        if name not in tool.params:
            raise Problem(
                "bad_argument", f"{tool.name} takes no {name[:40]!r}", f"it takes {', '.join(tool.params)}"
            )
        wanted = tool.params[name].kind
        if not isinstance(value, KINDS[wanted]) or isinstance(value, bool):
            raise Problem("bad_argument", f"{name} must be of type {wanted}")
    if missing := [
        name for name, param in tool.params.items() if param.is_required and name not in arguments
    ]:
        raise Problem("bad_argument", f"{tool.name} needs {', '.join(missing)}")
    return tool.run(client, **arguments)


def _status(client: Client) -> dict[str, Any]:
    return _plain(client.status())


def _jobs(client: Client, limit: int = 20, **filters: str) -> dict[str, Any]:
    found = client.jobs(limit=max(1, min(limit, MOST_JOBS)), **filters)
    names = ("name", "title", "state", "outcome", "reason")
    return {"jobs": [{name: getattr(job, name) for name in names} for job in found]}


def _job(client: Client, job: str = "last") -> dict[str, Any]:
    return _plain(client.job(job).record)


def _log(client: Client, job: str = "last", tail: int = 100) -> dict[str, Any]:
    lines = client.job(job).log(tail=max(1, min(tail, MOST_LINES)))
    text = "\n".join(f"[{line.source}] {line.text}" for line in lines)
    return {"log": text[-MOST_TEXT:], "is_cut": len(text) > MOST_TEXT}


def _why(client: Client, job: str = "last") -> dict[str, Any]:
    return _plain(client.job(job).why())


def _results(client: Client, job: str = "last") -> dict[str, Any]:
    return {"results": client.job(job).results()}


def _nodes(client: Client) -> dict[str, Any]:
    return {"nodes": [_plain(node) for node in client.nodes()]}


def _me(client: Client) -> dict[str, Any]:
    return _plain(client.me())


def _run(client: Client, title: str, request: str | None = None, **given: Any) -> dict[str, Any]:
    options = {**given.pop("options", {}), **given}
    if wrong := sorted(options.keys() - OPTIONS.keys()):
        # Not those of `Client.run`, which read other directories and files.
        raise Problem(
            "bad_argument", f"a job has no option {wrong[0][:40]!r}", f"it has {', '.join(OPTIONS)}"
        )
    job = client.run(title, request, **options)
    return {"job": job.name, "state": job.state}


def _stop(client: Client, job: str) -> dict[str, Any]:
    found = client.job(job).stop()
    return {"job": found.name, "state": found.state}


def _plain(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = to_json(answer)
    return found


JOB = Param("string", "its number, `190.7` for an element of an array, or `last` (default)")
TOOLS = (
    Tool("status", "Running, waiting and done jobs of the cluster, with totals.", _status),
    Tool(
        "jobs",
        "List jobs, the newest first.",
        _jobs,
        {
            "user": Param("string", "whose jobs; `me` for your own"),
            "title": Param("string", "a pattern such as %test%"),
            "since": Param("string", "submitted since then, such as 2026-04 or 2026-04-30"),
            "limit": Param("integer", f"how many at most, up to {MOST_JOBS}"),
        },
    ),
    Tool(
        "job",
        "All about one job: state, reason, options, code, processes with exit codes.",
        _job,
        {"job": JOB},
    ),
    Tool(
        "log",
        "The last lines of a job's log, until now.",
        _log,
        {"job": JOB, "tail": Param("integer", f"how many lines, up to {MOST_LINES}; by default 100")},
    ),
    Tool("why", "Why a job waits, or how it ended, in sentences.", _why, {"job": JOB}),
    Tool("results", "What the elements of a sweep, or a job, wrote to $RESULT_FILE.", _results, {"job": JOB}),
    Tool("nodes", "All nodes: what they have and what is free.", _nodes),
    Tool("me", "Your own account with its limits.", _me),
    Tool(
        "run",
        "Submit the git project in the server's directory, as it is on disk, as a new job.",
        _run,
        {
            "title": Param("string", "a short description", is_required=True),
            "request": Param(
                "string", "what it needs, such as [2:a100] or 2:[8:cpu]; by default what the project says"
            ),
            "command": Param("string", "bash commands; by default the project's .compute"),
            "options": Param("object", f"more job options by name: {', '.join(OPTIONS)}"),
        },
        writes=True,
    ),
    Tool("stop", "Stop a job.", _stop, {"job": Param("string", JOB.meaning, is_required=True)}, writes=True),
)
