"""Parse paths on the head: a domain and a path below it."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

from pit.args.options import LAST, MAX_NUMBER
from pit.args.usage_problem import UsageProblem
from pit.ui.sanitize import sanitize
from pit_protocol.arrays.numbers import array_of, parse_job_name
from pit_protocol.paths import quote_path

# `190`, `190.7`, `job:190`, `last`, `home`, `user:anna`, `group:lab`, `shared`; and a path after `/` or `:`.
_REMOTE_PATH = re.compile(
    r"(?:(?P<fixed>home|shared)|(?P<named>(?:user|group):[^/:]+)|(?:job:)?(?P<job>[0-9]{1,10}(?:\.[0-9]{1,7})?|last))"
    r"(?:[/:](?P<path>.*))?",
    re.DOTALL,
)
FIXED_DOMAINS = ("home", "shared")
FORMS = "190, job:190, last, home, user:NAME, group:NAME or shared"
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class RemotePath:
    domain: str
    path: str = ""  # without leading and trailing slashes; empty for the domain itself

    @property
    def route(self) -> str:
        """The path in the API."""
        return f"/files/{self.domain}" + (f"/{quote_path(self.path)}" if self.path else "")

    @property
    def name(self) -> str:
        """The file name of a local copy."""
        return self.path.rpartition("/")[2] or self.domain.replace(":", "-")

    @property
    def is_pattern(self) -> bool:
        return bool(_WILDCARD.search(self.path))

    def below(self, path: str) -> "RemotePath":
        return RemotePath(self.domain, "/".join(filter(None, (self.path, path))))

    def split_pattern(self) -> tuple["RemotePath", str]:
        """The directory before the first name with a wildcard, and the pattern below it."""
        names = self.path.split("/")
        first = next(i for i, name in enumerate(names) if _WILDCARD.search(name))
        return RemotePath(self.domain, "/".join(names[:first])), "/".join(names[first:])

    def __str__(self) -> str:
        return sanitize(f"{self.domain} {self.path}" if self.path else self.domain)


def parse_remote_path(entity: str, path: str | None = None) -> RemotePath:
    """Parse `190`, `home`, `group:lab` and so on; the path is separate or part of the word: `home:data/x`."""
    match = _REMOTE_PATH.fullmatch(entity)
    if match is None or not _is_job(match["job"]):
        raise UsageProblem(f"{entity!r} is not a data directory", f"write {FORMS}")
    domain = match["fixed"] or match["named"] or f"job:{match['job'].lstrip('0')}"
    joined = "/".join(filter(None, (match["path"], path)))
    names = [name for name in joined.split("/") if name not in ("", ".")]
    if ".." in names:
        raise UsageProblem(f"{joined!r} leads out of {domain}", f"write a path below {domain}, without ..")
    return RemotePath(domain, "/".join(names))


def _is_job(word: str | None) -> bool:
    if word is None or word == LAST:
        return True
    number = parse_job_name(word)
    return number is not None and 0 < array_of(number) <= MAX_NUMBER


def outermost(paths: Collection[str]) -> list[str]:
    """The paths without those below another one of them."""
    return sorted(
        path for path in paths if not any(str(parent) in paths for parent in PurePosixPath(path).parents)
    )


def is_remote_path(word: str) -> bool:
    """Whether a word can only mean files: it has a path, or its domain is not an entity."""
    match = _REMOTE_PATH.fullmatch(word)
    return match is not None and (match["fixed"] is not None or bool(match["path"]))


def is_domain(word: str) -> bool:
    """Whether a word is a domain without a path."""
    match = _REMOTE_PATH.fullmatch(word)
    return match is not None and not match["path"]
