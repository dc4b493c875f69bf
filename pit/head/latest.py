"""The word `last`: the latest job that the user has submitted on this head."""

from collections.abc import Iterable
from dataclasses import replace

from msgspec import structs

from pit.args.entities import Entity
from pit.args.options import LAST, LATEST
from pit.args.remote_path import RemotePath
from pit.head.client import Head
from pit.ui import output
from pit_protocol.job_options import JOB, OPTIONS, JobOptions
from pit_protocol.problem import Problem


def find_number(head: Head, number: int, *, tell: bool = True) -> int:
    """The number itself, or that of the user's latest job; says which job that is unless `tell` is off."""
    if number != LATEST:
        return number
    found = head.jobs({"user": "me", "limit": 1}).jobs
    if not found:
        raise Problem(
            "no_latest_job",
            f"you have no job yet on the head at {head.connection.url}",
            "`pit run` makes one, `pit status` shows the jobs of others",
        )
    if tell:
        output.note(f"job {found[0].number}: {found[0].title}")
    return found[0].number


def find_numbers(head: Head, numbers: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(find_number(head, number) for number in numbers))


def find_entity(head: Head, entity: Entity) -> Entity:
    if (entity.kind, entity.name) != ("job", LAST):
        return entity
    return replace(entity, name=str(find_number(head, LATEST)))


def find_path(head: Head, where: RemotePath) -> RemotePath:
    if where.domain != f"job:{LAST}":
        return where
    return replace(where, domain=f"job:{find_number(head, LATEST)}")


def find_options(head: Head, options: JobOptions) -> JobOptions:
    """The options of a job, with a number where `last` was given."""
    latest = [
        name for name, option in OPTIONS.items() if option.metavar == JOB and getattr(options, name) == LATEST
    ]
    found = {name: find_number(head, LATEST) for name in latest}
    after = dict.fromkeys(structs.replace(each, job=find_number(head, each.job)) for each in options.after)
    return structs.replace(options, after=tuple(after), **found)
