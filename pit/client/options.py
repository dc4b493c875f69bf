"""Job options as Python values, by the names in the table of job options."""

from collections.abc import Callable, Mapping
from typing import Any

from pit.client.job import Job
from pit_protocol.dependencies import Dependency
from pit_protocol.job_options import OPTIONS, check_text
from pit_protocol.problem import Problem


def make_given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Job options from what a program gives; a Problem for one that does not exist or has a wrong value."""
    given: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise Problem("unknown_option", f"a job has no option {name!r}", f"it has {known}")
        given[name] = _CONVERTERS[name](value) if name in _CONVERTERS and value is not None else value
        if isinstance(given[name], str):
            check_text(name, given[name])
    return given


def _env(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _sweep(axes: Mapping[str, Any]) -> list[str]:
    return [f"{name}={','.join(str(value) for value in values)}" for name, values in axes.items()]


def _after(jobs: Any) -> tuple[Dependency, ...]:
    many = jobs if isinstance(jobs, list | tuple) else [jobs]
    return tuple(each if isinstance(each, Dependency) else Dependency(_number(each)) for each in many)


def _number(job: Any) -> int:
    return job.record.id if isinstance(job, Job) else int(job)


def _events(names: Any) -> str:
    return names if isinstance(names, str) else ",".join(names)


def _seconds(time: Any) -> str:
    return time if isinstance(time, str) else f"{int(time)}s"


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "env": _env,
    "sweep": _sweep,
    "after": _after,
    "continues": _number,
    "notify": _events,
    "time": _seconds,
    "retry_on": tuple,
}
