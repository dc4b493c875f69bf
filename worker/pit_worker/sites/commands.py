"""`pit-worker site`, the agent of a site, and `pit-worker pilot`, which the agent starts in allocations."""

import argparse
import fcntl
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from pit_protocol.system.failpoints import Failpoints
from pit_worker import settings
from pit_worker.admin import install, join
from pit_worker.head import tls
from pit_worker.head.client import Head
from pit_worker.log_lines import log_to_stderr
from pit_worker.settings import SettingError, Settings
from pit_worker.sites import pilot, pilot_settings
from pit_worker.sites.agent import Agent
from pit_worker.sites.slurm import Slurm

CRASH_AT = "PIT_CRASH_AT"  # only tests set it
SPOOL = "allocations"

log = logging.getLogger(__name__)
Add = Callable[[Any, str, Callable[[argparse.Namespace], int], str, str], argparse.ArgumentParser]


def add(commands: Any, add_command: Add) -> None:
    command = add_command(commands, "site", _site, "run the agent of a site in the foreground", (
        "Run it on a login node, as the account that jobs are to run as. With an URL it joins first, by the\n"
        "code in PIT_WORKER_JOIN_CODE; `pit add site:NAME kind=slurm` prints that line. Its directory must\n"
        "be on a file system that the compute nodes share.\n\n"
        "example: PIT_WORKER_JOIN_CODE=… pit-worker site https://head.example.org:7478 sha256:28ab…"
    ))  # fmt: skip
    command.add_argument("url", metavar="URL", nargs="?", help="the head's address")
    command.add_argument("pin", metavar="PIN", nargs="?", help="the pin of its certificate")
    command.add_argument("--force", action="store_true", help="join again an agent that has joined")
    folder = "~/.config/pit-worker/site/allocations/pit-0-1-1"
    command = add_command(commands, "pilot", _pilot, "run the worker in an allocation; the agent starts it",
                          f"example: pit-worker pilot {folder}")  # fmt: skip
    command.add_argument("folder", metavar="DIR", help="where the agent has left its settings")


def _site(given: argparse.Namespace) -> int:
    config = Path(given.config).absolute() if given.config else settings.default_config() / "site"
    if given.url and (given.force or not (config / join.TOKEN_FILE).exists()):
        joined = join.join(given.url, given.pin, config, None, force=given.force)
        sys.stdout.write(f"this is the agent of site {joined.node} of cluster {joined.cluster}\n")
    chosen = settings.load({"config": str(config), "spool": str(config / SPOOL)})
    settings.read_token(chosen.token_file)
    tls.read_certificates(chosen.ca_file)
    log_to_stderr()
    with _lock(chosen):
        words = [*install.SERVICE.command, "pilot"]
        failpoints = Failpoints(os.environ.get(CRASH_AT, ""))
        return Agent(chosen, Slurm(words), Head(chosen), failpoints).run()


def _lock(chosen: Settings) -> TextIO:
    """Only one agent uses a directory; raises SettingError."""
    chosen.spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (chosen.spool / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise SettingError(f"another agent runs with {chosen.spool}") from error
    return file


def _pilot(given: argparse.Namespace) -> int:
    log_to_stderr()
    folder = Path(given.folder)
    return pilot.run(folder, pilot_settings.read(folder))
