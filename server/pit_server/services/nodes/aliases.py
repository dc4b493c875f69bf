"""Aliases: short names of models, by which requests ask for resources."""

import re

from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_grammar import parse
from pit_protocol.answers import nodes as answers
from pit_protocol.problem import Problem
from pit_protocol.states import JobState
from pit_server.db.memo import remembered
from pit_server.db.models import Alias, Job, Resource
from pit_server.scheduler.kinds import fold
from pit_server.services import names
from pit_server.services.properties import Property, read_some_text

PROPERTIES = (Property("name", read_some_text, is_mandatory=True),)
# Words of a model's name for its maker or product line, and for details of a variant.
_NOISE = re.compile(r"\(.*?\)|\b(nvidia|amd|intel|geforce|quadro|tesla|radeon|instinct|graphics|gpu)\b")
_DETAIL = re.compile(r"^(\d+gb?|\d+g|sxm\d*|pcie?|nvl|hbm\w*|max-q|laptop|edition|generation|ada|mig)$")


def add(session: Session, name: str, model: str) -> None:
    names.check_name("alias", name)
    if session.get(Alias, name):
        raise names.exists("alias", name)
    _check_free(session, name, model)
    session.add(Alias(name=name, model=model))
    session.flush()


def change(session: Session, name: str, model: str) -> None:
    """Point an alias at another model."""
    alias = find(session, name, lock=True)
    if fold(model) != fold(alias.model):
        _check_unused(session, name)
    _check_free(session, name, model)
    alias.model = model
    session.flush()


def find(session: Session, name: str, *, lock: bool = False) -> Alias:
    alias = session.get(Alias, name, with_for_update=lock or None)
    if alias is None:
        raise names.unknown("alias", name)
    return alias


def remove(session: Session, name: str) -> None:
    """Remove an alias; refused while a job that has not ended asks for it."""
    alias = find(session, name, lock=True)
    _check_unused(session, name)
    session.delete(alias)
    session.flush()


def _check_unused(session: Session, name: str) -> None:
    rows = session.execute(select(Job.id, Job.request).where(Job.state != JobState.ENDED).order_by(Job.id))
    users = [row.id for row in rows if name in row.request and name in parse(row.request).kinds]
    if users:
        raise names.in_use(f"alias {name}", f"{names.jobs(users)} it in the request", "`pit stop`, or wait")


def _check_free(session: Session, name: str, model: str) -> None:
    """An alias must not hide a model of that very name."""
    hidden = select(Resource.model).where(Resource.kind == name, Resource.kind != fold(model)).limit(1)
    if known := session.execute(hidden).scalar_one_or_none():
        raise Problem(
            "exists", f"{name} is already the name of {known!r}", "choose another alias", status=409
        )


def records(session: Session) -> list[answers.Alias]:
    rows = session.execute(select(Alias).order_by(Alias.name)).scalars()
    return [answers.Alias(row.name, row.model) for row in rows]


def note_model(session: Session, model: str) -> None:
    """Add an alias for a model that has none, if a suitable name is free."""
    if session.execute(select(Alias.name).where(Alias.model == model)).first():
        return
    name = suggest(model)
    if name and name not in names.RESERVED and not session.get(Alias, name):
        session.add(Alias(name=name, model=model))
        session.flush()


def suggest(model: str) -> str:
    """`GeForce GTX 1070` -> `gtx1070`, `NVIDIA A100-SXM4-40GB` -> `a100`; or empty."""
    words = [word for word in re.split(r"[\s_/-]+", _NOISE.sub(" ", model.lower())) if word]
    short = "".join(word for word in words if not _DETAIL.fullmatch(word))
    short = re.sub(r"[^a-z0-9.]", "", short)
    return short if names.ALIAS.fullmatch(short) and short != fold(model) else ""


def kind_names(session: Session) -> "KindNames":
    """The names of kinds at this moment."""
    return remembered(session, "kind names", (Alias,), KindNames)


class KindNames:
    """Which names requests may use for which kind of resource, at one moment."""

    def __init__(self, session: Session) -> None:
        self._by_model: dict[str, list[str]] = {}
        for row in session.execute(select(Alias).order_by(Alias.name)).scalars():
            self._by_model.setdefault(fold(row.model), []).append(row.name)

    def aliases(self, folded: str) -> list[str]:
        return self._by_model.get(folded, [])

    def kind(self, folded: str) -> str:
        """The one name that the scheduler uses for a model: its first alias, or the model's own name."""
        return next(iter(self.aliases(folded)), folded)

    def kinds(self) -> dict[str, str]:
        """Map every other name of a kind to the kind."""
        return {
            name: self.kind(folded)
            for folded, aliases in self._by_model.items()
            for name in (folded, *aliases)
            if name != self.kind(folded)
        }
