"""Traces from files: our own format, the Standard Workload Format, and the tables of a GPU cluster."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from pit_grammar import parse
from pit_grammar.errors import RequestError
from pit_protocol.problem import Problem
from pit_server.scheduler.capacity import NodeView
from pit_server.simulator.trace import SLOTS, Trace, TraceJob

SWF_NODE = 8  # processors of a node: the format knows only their sum
_SWF_FIELDS = 18


def read(file: Path) -> Trace:
    """Read a trace; the name of the file says in which format."""
    readers = {".swf": _read_swf, ".csv": _read_tables}
    try:
        trace = readers.get(file.suffix, _read_lines)(file)
    except OSError as error:
        raise _bad(file, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _bad(file, "is not text") from None
    if not trace.jobs or not trace.nodes:
        raise _bad(file, f"has no {'jobs' if trace.nodes else 'nodes'}")
    return Trace(trace.nodes, tuple(sorted(trace.jobs, key=lambda job: job.submitted)))


def _bad(file: Path, what: str) -> Problem:
    return Problem("bad_trace", f"{file} {what}", "docs/scheduling.md describes the formats.")


def _read_lines(file: Path) -> Trace:
    """Our own format: a JSON object per line, for nodes and for jobs."""
    nodes: list[NodeView] = []
    jobs: list[TraceJob] = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            row = json.loads(line)
            if "nodes" in row:
                nodes += _nodes(len(nodes), **row)
            else:
                jobs.append(_job(**row))
        except RequestError as error:
            raise _bad(file, f"has a bad request in line {number}: {error}") from None
        except (ValueError, TypeError, AttributeError) as error:
            raise _bad(file, f"has a bad line {number}: {error}") from None
    return Trace(tuple(nodes), tuple(jobs))


def _nodes(
    first: int, *, nodes: int, cpu: float = 0, mem: float = 0, gpus: dict[str, int] | None = None
) -> Iterator[NodeView]:
    for number in range(first, first + nodes):
        yield a_node(number, cpu * 1000, mem * 1024, gpus or {})


def a_node(number: int, cpu_milli: float, memory_mib: float, gpus: dict[str, int]) -> NodeView:
    units = {kind: tuple(f"{kind}-{index}" for index in range(count)) for kind, count in gpus.items()}
    return NodeView(number, f"n{number}", SLOTS, round(cpu_milli), round(memory_mib), units)


def _job(
    *,
    submit: float,
    run: float,
    request: str,
    user: str = "",
    group: str = "",
    priority: int = 0,
    limit: float = 0,
) -> TraceJob:
    parse(request)
    if run <= 0 or limit < 0:
        raise ValueError("a job runs for some time")
    return TraceJob(float(submit), float(run), request, user, group, priority, float(limit))


def _read_swf(file: Path) -> Trace:
    """The Standard Workload Format: each processor of a job is a process with one core."""
    jobs: list[TraceJob] = []
    processors = 0
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if line.startswith(";"):
            name, _, value = line[1:].partition(":")
            if name.strip() in ("MaxNodes", "MaxProcs") and value.strip().isdigit():
                processors = max(processors, int(value))
        elif line.strip():
            try:
                jobs += _swf_job(line.split())
            except (ValueError, IndexError):
                raise _bad(file, f"has a bad line {number}: it needs {_SWF_FIELDS} numbers") from None
    nodes = (
        a_node(number, 1000 * min(SWF_NODE, processors - number * SWF_NODE), 0, {})
        for number in range(-(-processors // SWF_NODE))
    )
    return Trace(tuple(nodes), tuple(jobs))


def _swf_job(fields: list[str]) -> Iterator[TraceJob]:
    """Jobs that were cancelled before they ran are left out."""
    values = [float(field) for field in fields]
    submitted, run_s, used, asked, limit_s = values[1], values[3], values[4], values[7], values[8]
    processors, user = int(asked if asked > 0 else used), int(values[11])
    if run_s > 0 and processors > 0:
        name = f"user{user}" if user >= 0 else ""
        yield TraceJob(submitted, run_s, f"{processors}:[cpu]", name, limit_s=max(0.0, limit_s))


def _read_tables(file: Path) -> Trace:
    """A table of tasks, and one of nodes beside it, named alike with `nodes` for `tasks`."""
    try:
        with file.with_name(file.name.replace("tasks", "nodes")).open(newline="") as table:
            nodes = tuple(
                a_node(
                    number,
                    int(row["cpu_milli"]),
                    int(row["memory_mib"]),
                    {row["model"].lower(): int(row["gpu"])} if row["model"] else {},
                )
                for number, row in enumerate(csv.DictReader(table))
            )
        with file.open(newline="") as table:
            jobs = tuple(job for row in csv.DictReader(table) for job in _table_job(row))
    except (KeyError, ValueError) as error:
        raise _bad(file, f"is not a table of tasks with one of nodes beside it: {error}") from None
    return Trace(nodes, jobs)


def _table_job(row: dict[str, str]) -> Iterator[TraceJob]:
    """A share of a GPU becomes a whole one for a shorter time; of several models, the first is asked for."""
    begun = row["scheduled_time"]
    if not begun or float(row["deletion_time"]) <= float(begun):
        return  # it never ran
    gpus, model = int(row["num_gpu"]), row["gpu_spec"].split("|")[0].lower() or "gpu"
    memory = max(1, round(int(row["memory_mib"]) / 128)) * 0.125  # requests have steps of 128 MiB
    needs = f"{int(row['cpu_milli']) / 1000:g}:cpu,{memory:g}:mem"
    request = f"[{gpus}:{model},{needs}]" if gpus else f"[{needs}]"
    share = int(row["gpu_milli"]) / 1000 if gpus == 1 else 1
    run_s = share * (float(row["deletion_time"]) - float(begun))
    yield TraceJob(float(row["creation_time"]), run_s, request)
