"""Removing a node that still works: no new processes, and patience with those that run."""

from pit import output
from pit.entities import Entity
from pit.following import HOLD_S
from pit.head import Head
from pit.patience import Patience
from pit_protocol.problem import Problem


def drain(head: Head, node: Entity) -> None:
    """Give the node nothing new, wait until its processes have ended, then remove it."""
    head.change(node.path, {"state": "draining"})
    patience = Patience(output.tell, met=True)
    told = ""
    while True:
        # Before trying, so that an end in between is not slept through.
        seen = patience.ask(head.status)["revision"]
        try:
            return head.remove(node.path)
        except Problem as problem:
            if problem.code != "in_use":
                raise
            # The head knows by whom; it is told again when that changes.
            if problem.message != told:
                output.tell(f"waiting: {problem.message}")
            told = problem.message
        patience.ask(lambda seen=seen: head.status(seen, HOLD_S))  # type: ignore[misc]
