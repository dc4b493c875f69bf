"""Secret variables of jobs. All who see a job see the names; only its processes get the values."""

from collections.abc import Mapping
from pathlib import Path

from pit_protocol.answers.jobs import VariablesDiff
from pit_protocol.messages.submission import Submission
from pit_protocol.problem import Problem
from pit_protocol.variables import check_job_variables
from pit_server.db.models import Job
from pit_server.services.users import secrets

UNREADABLE_COMMAND = (
    'echo "pit: the head can no longer decrypt the secrets of this job; submit it again" >&2; exit 1\n'
)


def fingerprints(home: Path, submission: Submission) -> dict[str, str]:
    """Keyed hashes that recognize the same values again; the database alone is not enough to guess them."""
    return {name: secrets.mark(home, name, value) for name, value in submission.variables.items()}


def seal_all(home: Path, user_id: int, submission: Submission, inherited: Job | None) -> dict[str, str]:
    """Encrypt a new job's secrets. Only the owner of an older job can inherit its values."""
    found, plain = dict(submission.variables), submission.options.env
    if inherited is not None:
        inherited_names = sorted(set(inherited.variables) - set(found) - set(plain))
        if inherited_names and inherited.user_id != user_id:
            raise Problem(
                "not_your_variables",
                f"only the user of job {inherited.id} can reuse its secrets: {', '.join(inherited_names)}",
                f"give your own: `--secret {inherited_names[0]}` takes the value from your environment",
                status=403,
            )
        kept = unseal(home, inherited) if inherited_names else {}
        found = {**{name: kept[name] for name in inherited_names}, **found}
        check_job_variables(plain, found)
    return {
        name: secrets.seal(home, user_id, _bound_to(submission.key, name), value)
        for name, value in sorted(found.items())
    }


def unseal(home: Path, job: Job) -> dict[str, str]:
    """Decrypt the values; raises a Problem if the head's key has changed."""
    try:
        return open_all(home, job.user_id, job.submission_key, job.variables)
    except Problem as problem:
        message = f"the secrets of job {job.id} cannot be decrypted: the head's key has changed"
        again = " ".join(f"--secret {name}" for name in sorted(job.variables))
        raise Problem(problem.code, message, f"give them again: {again}") from problem


def open_all(home: Path, user_id: int, key: str, sealed: Mapping[str, str]) -> dict[str, str]:
    return {name: secrets.unseal(home, user_id, _bound_to(key, name), text) for name, text in sealed.items()}


def compare(home: Path, one: Job, other: Job) -> VariablesDiff:
    """How the secrets of two jobs differ, as lists of names.

    Values are compared only between jobs of the same user: otherwise another user could test guesses.
    """
    both = sorted(set(one.variables) & set(other.variables))
    unknown = both if one.user_id != other.user_id else []
    first, second = ({}, {}) if unknown or not both else (unseal(home, one), unseal(home, other))
    return VariablesDiff(
        removed=sorted(set(one.variables) - set(other.variables)),
        added=sorted(set(other.variables) - set(one.variables)),
        changed=[name for name in both if first.get(name) != second.get(name)],
        unknown=unknown,
    )


def _bound_to(key: str, name: str) -> str:
    """The context a value is sealed with, so that it cannot be moved to another job or variable."""
    return f"job.{key}.{name}"
