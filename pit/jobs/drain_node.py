"""Drain a node: no new processes, wait for those that run, then remove it."""

from pit.args.entities import Entity
from pit.head.client import Head
from pit.head.retry import HeadRetry
from pit.jobs.log_follow import HOLD_S
from pit.ui import output
from pit_protocol.problem import Problem


def drain(head: Head, node: Entity) -> None:
    """Place nothing new on the node, wait until its processes have ended, then remove it."""
    head.change(node, {"state": "draining"})
    retry = HeadRetry(output.note, met=True)
    last_message = ""
    while True:
        # Read first, so that a process that ends in between is not missed.
        seen = retry.call(head.status).revision
        try:
            head.remove(node)
            return
        except Problem as problem:
            if problem.code != "in_use":
                raise
            if problem.message != last_message:
                output.note(f"waiting: {problem.message}")
            last_message = problem.message
        retry.call(lambda seen=seen: head.status(seen, HOLD_S))  # type: ignore[misc]
