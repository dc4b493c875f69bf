"""The audit: who did what when; written in the same transaction as the change, and never altered."""

from collections.abc import Mapping

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from pit_protocol.answers.users import AuditEntry
from pit_protocol.problem import Problem
from pit_server.db.models import Audit
from pit_server.services.validation import parse_number, storable

NOBODY = "-"
MAX_ROWS = 1_000
DEFAULT_ROWS = 100
MAX_DETAIL = 500
FILTERS = {"actor", "object", "limit", "before"}


def note(
    session: Session, actor: str, action: str, thing: str, *, now: float, detail: str = "", address: str = ""
) -> None:
    """Write one entry; `thing` is the object, such as `user:anna`. Must not contain secrets."""
    entry = {
        "actor": actor,
        "act": action,
        "object": thing,
        "detail": detail[:MAX_DETAIL],
        "address": address,
    }
    session.execute(insert(Audit).values(at=now, **{name: storable(text) for name, text in entry.items()}))


def entries(session: Session, filters: Mapping[str, str]) -> list[AuditEntry]:
    """List entries, the newest first."""
    if unknown := sorted(set(filters) - FILTERS):
        known = ", ".join(sorted(FILTERS))
        raise Problem(
            "unknown_filter", f"there is no filter {unknown[0]!r}", f"known are: {known}", status=422
        )
    query = select(Audit).order_by(Audit.id.desc())
    for name, column in (("actor", Audit.actor), ("object", Audit.object)):
        if name in filters:
            query = query.where(column == filters[name])
    if "before" in filters:
        query = query.where(Audit.id < int(parse_number("before", filters["before"])))
    limit = int(parse_number("limit", filters["limit"])) if "limit" in filters else DEFAULT_ROWS
    rows = session.execute(query.limit(min(limit, MAX_ROWS))).scalars()
    return [
        AuditEntry(row.id, row.at, row.actor, row.act, row.object, row.detail, row.address) for row in rows
    ]
