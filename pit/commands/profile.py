"""`pit profile`: several heads, each under a name."""

import os

import click

from pit.args.options import example, json_option, pin_option
from pit.connect.connect_files import (
    find_profile,
    get_home_file,
    home_path,
    keep_home_address,
    keep_profile,
    list_profiles,
    profile_path,
)
from pit.connect.head_address import Address
from pit.exit_codes import Exit
from pit.login.trust import establish_trust
from pit.ui import output
from pit.ui.documents import Profile, ProfileList
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit_protocol.problem import Problem

COLUMNS = (
    Column(""),
    Column("PROFILE", importance=5),
    Column("URL", flexible=True),
    Column("PIN", flexible=True),
)


@click.group("profile", epilog=example("pit profile add lab https://pit.example.org:8443"))
def command() -> None:
    """Name several heads, and choose one of them.

    PIT_PROFILE=NAME in the environment chooses one for a single command and overrides a project's file.
    """


@command.command("add", epilog=example("pit profile add lab https://pit.example.org:8443"))
@click.argument("name")
@click.argument("place", metavar="[URL|FILE]", required=False)
@pin_option
@json_option
def add(name: str, place: str | None, pin: str | None, as_json: bool) -> Exit:
    """Save the head at URL, or of FILE, as profile NAME; without either, the current one."""
    if profile_path(name).exists():
        raise Problem(
            "exists", f"there is a profile {name} already", f"`pit profile remove {name}` removes it"
        )
    if pin and not place:
        raise click.UsageError("--pin needs a URL")
    address = establish_trust(place, pin) if place else _current()
    keep_profile(name, address)
    return _say(name, address, "added", as_json)


@command.command("use", epilog=example("pit profile use lab"))
@click.argument("name")
@json_option
def use(name: str, as_json: bool) -> Exit:
    """Make the head of profile NAME the current one (~/.pitconnect.txt)."""
    address = find_profile(name).address
    keep_home_address(address)
    return _say(name, address, "in use", as_json)


@command.command("show", epilog=example("pit profile show"))
@json_option
def show(as_json: bool) -> Exit:
    """List the profiles; * marks the one in use."""
    profiles = [_described(name) for name in list_profiles()]
    if as_json:
        output.show_json(ProfileList(profiles))
        return Exit.DONE
    rows = [
        ("*" if p.in_use else "", sanitize(p.name), sanitize(p.url), " ".join(p.pins) or "-")
        for p in profiles
    ]
    output.show_table(COLUMNS, [Section("", rows)])
    return Exit.DONE


@command.command("remove", epilog=example("pit profile remove lab"))
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> Exit:
    """Remove profile NAME; the current head stays the same."""
    file = find_profile(name)
    file.path.unlink()
    return _say(name, file.address, "removed", as_json)


def _current() -> Address:
    file = get_home_file()
    if file is None:
        raise Problem("no_head", f"there is no {home_path()} to keep", "name a URL or FILE")
    return file.address


def _described(name: str) -> Profile:
    address, chosen, home = find_profile(name).address, os.environ.get("PIT_PROFILE"), get_home_file()
    in_use = name == chosen if chosen else home is not None and home.address == address
    return Profile(name, address.url, address.pins, in_use)


def _say(name: str, address: Address, what: str, as_json: bool) -> Exit:
    if as_json:
        output.show_json(Profile(name, address.url, address.pins))
    else:
        output.show(f"profile {sanitize(name)} is {what}: {address.url}")
    return Exit.DONE
