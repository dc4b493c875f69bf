"""Dependencies between jobs: `--after 12,13:any` lets a job wait until others have ended, and how."""

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

from pit_protocol.arrays.numbers import job_name
from pit_protocol.problem import Problem
from pit_protocol.states import Outcome
from pit_protocol.wire import Int, Message


class When(StrEnum):
    """How the other job has to end."""

    OK = "ok"  # it succeeds
    ANY = "any"  # it ends, whatever its outcome
    FAIL = "fail"  # it ends, but does not succeed

    def is_met(self, outcome: Outcome) -> bool:
        return self is When.ANY or (outcome is Outcome.SUCCEEDED) == (self is When.OK)

    @property
    def verb(self) -> str:
        return {When.OK: "succeed", When.ANY: "end", When.FAIL: "fail"}[self]


class Dependency(Message, frozen=True):
    job: Int
    when: When = When.OK


def check_dependencies(dependencies: Iterable[Dependency]) -> None:
    """Refuse a job that is named twice, because it ends only once."""
    seen: dict[int, When] = {}
    for each in dependencies:
        if each.job in seen:
            both = f" with {seen[each.job]} and {each.when}" if seen[each.job] != each.when else ""
            raise Problem(
                "bad_after", f"--after names job {job_name(each.job)} twice{both}", "name it once", status=422
            )
        seen[each.job] = each.when


def render_dependencies(dependencies: Iterable[Dependency]) -> str:
    """As on the command line: `12,13:any 14`."""
    jobs: defaultdict[When, list[str]] = defaultdict(list)
    for each in dependencies:
        jobs[each.when].append(job_name(each.job))
    return " ".join(
        ",".join(numbers) + ("" if when is When.OK else f":{when}") for when, numbers in jobs.items()
    )
