"""Facts about the whole cluster."""

import secrets

from sqlalchemy.orm import Session

from pit_server.db.models import Fact

CLUSTER_ID = "cluster"


def lock(session: Session) -> None:
    """Let what only one may do at a time wait for its turn, until this transaction ends."""
    session.get(Fact, CLUSTER_ID, with_for_update=True)


def find_id(session: Session) -> str:
    """The cluster's id, made at the first start."""
    fact = session.get(Fact, CLUSTER_ID)
    if fact is None:
        fact = Fact(name=CLUSTER_ID, value=secrets.token_hex(6))
        session.add(fact)
    return fact.value
