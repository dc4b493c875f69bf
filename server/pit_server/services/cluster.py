"""Facts about the whole cluster."""

import secrets

from sqlalchemy.orm import Session

from pit_server.db.models import Fact

CLUSTER_ID = "cluster"


def lock(session: Session) -> None:
    """Serialize transactions that must not run concurrently, until this one ends."""
    session.get(Fact, CLUSTER_ID, with_for_update=True)


def find_id(session: Session) -> str:
    """The cluster's id; created at the first start."""
    fact = session.get(Fact, CLUSTER_ID)
    if fact is None:
        fact = Fact(name=CLUSTER_ID, value=secrets.token_hex(6))
        session.add(fact)
    return fact.value
