"""Which runtime a job needs: by its options, its image, the job that it continues, or the default."""

from collections.abc import Mapping
from typing import Any

from pit_protocol.job_options import ANY, DOCKER, PROCESS, JobOptions
from pit_protocol.problem import Problem


def check(options: JobOptions) -> None:
    """Refuse an image without containers."""
    if options.image is not None and options.runtime == PROCESS:
        raise Problem(
            "bad_runtime",
            f"the image {options.image} needs the docker runtime, not {PROCESS}",
            "leave out --runtime, or the image",
            status=422,
        )


def resolve(options: JobOptions, continued: Mapping[str, Any] | None, default: str) -> str | None:
    """What to store as a new job's runtime; `continued` are the options of the job that it continues."""
    if options.image is not None:
        return None  # needs no other word
    if options.runtime is not None:
        return options.runtime
    inherited = needed(continued) if continued is not None else ANY
    chosen = inherited if inherited != ANY else default
    return None if chosen == ANY else chosen


def needed(options: Mapping[str, Any]) -> str:
    """The runtime that a stored job needs."""
    return DOCKER if options.get("image") is not None else options.get("runtime") or ANY
