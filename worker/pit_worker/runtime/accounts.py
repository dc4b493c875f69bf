"""Whose account processes run as on this node."""

import os
import pwd

from pit_protocol.messages.beat import Runtime
from pit_worker.runtime import user_process
from pit_worker.settings import RunAs, Settings

OBJECTION = "a head with several users gives this node jobs only after `pit set node:NAME shared_account=yes`"


def why_shared(settings: Settings) -> str:
    """Why all processes run as the worker's own account; empty if each can run as its user."""
    if settings.runtime is Runtime.DOCKER:
        return "" if os.geteuid() == 0 else "the worker is not root"
    return f"run_as is {RunAs.WORKER}" if settings.run_as is RunAs.WORKER else user_process.why_not()


def own_name() -> str:
    """The account that the worker runs as."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def describe(settings: Settings) -> str:
    """How processes run here, in words."""
    if why := why_shared(settings):
        return f"jobs of all users run as {own_name()}, because {why}"
    return "each job runs as its user's own account"
