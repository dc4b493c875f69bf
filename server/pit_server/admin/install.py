"""`pit-head install`: the head as a systemd service that starts with the machine."""

import pwd
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.system import systemd

SERVICE = systemd.Service(
    "pit-head", "pit_server", Path(__file__).with_name("pit-head.service"), "pit-head serve"
)


def render_unit(home: Path) -> str:
    """The unit, for a head with its state in `home`; it runs as the owner of that directory."""
    return SERVICE.render(home=str(home.absolute()), user=owner(home))


def install(home: Path) -> Path:
    """Write the unit, start it now and with the machine; returns its file. Raises a Problem."""
    systemd.check(SERVICE, "--home", str(home))
    return systemd.install(SERVICE, render_unit(home))


def owner(home: Path) -> str:
    """The account that owns the head's directory."""
    try:
        return pwd.getpwuid(home.stat().st_uid).pw_name
    except FileNotFoundError:
        hint = f"`mkdir -m 700 {home}` makes it; the head runs as its owner"
        raise Problem("no_home", f"there is no directory {home}", hint) from None
    except KeyError:
        hint = "`chown` gives it to the account that the head is to run as"
        raise Problem("no_home", f"the owner of {home} has no account here", hint) from None
