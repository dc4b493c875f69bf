"""Variables of jobs: names are for all who see the job, values sealed and for its own processes alone."""

from collections.abc import Mapping
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.submission import Submission
from pit_protocol.variables import check_variables
from pit_server.db.models import Job
from pit_server.services import secrets

NOT_OPENED = (
    'echo "pit: the head can no longer open the variables of this job; submit it again" >&2; exit 1\n'
)


def marked(home: Path, submission: Submission) -> dict[str, str]:
    """By which a submission's values are known again, without being guessed by who has the database."""
    return {name: secrets.mark(home, name, value) for name, value in submission.variables.items()}


def gather(home: Path, user_id: int, submission: Submission, inherited: Job | None) -> dict[str, str]:
    """A new job's variables, sealed for it; those of an older one only for whose they are."""
    found = dict(submission.variables)
    if inherited is not None:
        lacking = sorted(set(inherited.variables) - set(found))
        if lacking and inherited.user_id != user_id:
            raise Problem(
                "not_your_variables",
                f"the values of job {inherited.id}'s variables are only for its user: {', '.join(lacking)}",
                "give values of your own: `-e NAME=VALUE`",
                status=403,
            )
        kept = unseal(home, inherited) if lacking else {}
        found = {**{name: kept[name] for name in lacking}, **found}
        check_variables(found)
    return {
        name: secrets.seal(home, user_id, _bound_to(submission.key, name), value)
        for name, value in sorted(found.items())
    }


def unseal(home: Path, job: Job) -> dict[str, str]:
    """The values; raises a Problem if the head has another key by now."""
    try:
        return open_all(home, job.user_id, job.submission_key, job.variables)
    except Problem as problem:
        message = f"the variables of job {job.id} cannot be opened: the head has another key now"
        raise Problem(problem.code, message, "give them again: `-e NAME=VALUE`") from problem


def open_all(home: Path, user_id: int, key: str, sealed: Mapping[str, str]) -> dict[str, str]:
    return {name: secrets.unseal(home, user_id, _bound_to(key, name), text) for name, text in sealed.items()}


def compare(home: Path, one: Job, other: Job) -> dict[str, list[str]]:
    """Names by how the two jobs differ in them.

    Values are compared only between jobs of one user: else who guesses a value would be told.
    """
    both = sorted(set(one.variables) & set(other.variables))
    unknown = both if one.user_id != other.user_id else []
    first, second = ({}, {}) if unknown or not both else (unseal(home, one), unseal(home, other))
    return {
        "removed": sorted(set(one.variables) - set(other.variables)),
        "added": sorted(set(other.variables) - set(one.variables)),
        "changed": [name for name in both if first.get(name) != second.get(name)],
        "unknown": unknown,
    }


def _bound_to(key: str, name: str) -> str:
    """What a value is sealed together with: another job's, or another variable's, opens nothing."""
    return f"job.{key}.{name}"
