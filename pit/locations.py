"""Places on the head, as users write them: a domain and a path below it."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath

import click

from pit.options import MAX_NUMBER
from pit.safe import safe
from pit_protocol.paths import quote_path

# `190`, `job:190`, `home`, `user:anna`, `group:lab`, `shared`; and a path after `/` or `:`.
_WORD = re.compile(
    r"(?:(?P<fixed>home|shared)|(?P<named>(?:user|group):[^/:]+)|(?:job:)?(?P<job>[0-9]{1,10}))"
    r"(?:[/:](?P<path>.*))?",
    re.DOTALL,
)
FIXED = ("home", "shared")
FORMS = "190, job:190, home, user:NAME, group:NAME or shared"
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Location:
    domain: str
    path: str = ""  # without slashes at its ends; empty: the domain itself

    @property
    def route(self) -> str:
        """Where the API has it."""
        return f"/files/{self.domain}" + (f"/{quote_path(self.path)}" if self.path else "")

    @property
    def name(self) -> str:
        """What a copy of it is called."""
        return self.path.rpartition("/")[2] or self.domain.replace(":", "-")

    @property
    def is_pattern(self) -> bool:
        return bool(_MAGIC.search(self.path))

    def below(self, path: str) -> "Location":
        return Location(self.domain, "/".join(filter(None, (self.path, path))))

    def split_pattern(self) -> tuple["Location", str]:
        """The directory before the first name with a pattern in it, and the pattern from there on."""
        names = self.path.split("/")
        first = next(i for i, name in enumerate(names) if _MAGIC.search(name))
        return Location(self.domain, "/".join(names[:first])), "/".join(names[first:])

    def __str__(self) -> str:
        return safe(f"{self.domain} {self.path}" if self.path else self.domain)


def parse_location(entity: str, path: str | None = None) -> Location:
    """`190`, `home`, `group:lab` and so on, with a path apart or after it: `home:data/x`."""
    match = _WORD.fullmatch(entity)
    if match is None or (match["job"] and not 0 < int(match["job"]) <= MAX_NUMBER):
        raise click.UsageError(f"{entity!r} is no place for files; write {FORMS}")
    domain = match["fixed"] or match["named"] or f"job:{int(match['job'])}"
    whole = "/".join(filter(None, (match["path"], path)))
    names = [name for name in whole.split("/") if name not in ("", ".")]
    if ".." in names:
        raise click.UsageError(f"{whole!r} leads out of {domain}")
    return Location(domain, "/".join(names))


def outermost(paths: Collection[str]) -> list[str]:
    """Without what is in a directory that is among them."""
    return sorted(
        path for path in paths if not any(str(above) in paths for above in PurePosixPath(path).parents)
    )


def is_location(word: str) -> bool:
    """Whether a word can only mean files: it has a path, or is a domain that is no entity."""
    match = _WORD.fullmatch(word)
    return match is not None and (match["fixed"] is not None or bool(match["path"]))


def is_domain(word: str) -> bool:
    """Whether it is a domain without a path."""
    match = _WORD.fullmatch(word)
    return match is not None and not match["path"]
