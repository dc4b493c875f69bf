"""The commands of `pit-worker`."""

import argparse
import json
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pit_protocol.transport import rclone
from pit_protocol.wire import to_json
from pit_worker import settings, testing
from pit_worker.admin import background, doctor, install, join
from pit_worker.admin.doctor_docker import check_engine, check_firewall
from pit_worker.daemon import CRASH, Worker
from pit_worker.head import tls
from pit_worker.log_lines import log_to_stderr
from pit_worker.runtime import accounts
from pit_worker.runtime.docker.engine import Engine
from pit_worker.runtime.docker.network.firewall import Firewall
from pit_worker.settings import NotNow, SettingError
from pit_worker.sites import commands as commands_of_sites
from pit_worker.sites.doctor import check_site
from pit_worker.spool.spool import Spool

PROBLEM = 1  # a person has to act; systemd does not restart the worker
INTERRUPTED = 130

log = logging.getLogger("pit_worker")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except SettingError as error:
        # It may quote others, so it must not contain terminal control characters.
        text = "".join(character if character.isprintable() else "?" for character in str(error))
        sys.stderr.write(f"pit-worker: {text}\n")
        return CRASH if isinstance(error, NotNow) else PROBLEM
    except (KeyboardInterrupt, EOFError):
        sys.stderr.write("\n")
        return INTERRUPTED
    except Exception:
        log.exception("internal error: this is a bug in pit-worker")
        return CRASH


def _run(given: argparse.Namespace) -> int:
    chosen = settings.load(vars(given))
    settings.read_token(chosen.token_file)
    tls.read_certificates(chosen.ca_file)
    if chosen.data_root == settings.REMOTE and (lack := rclone.why_unavailable()):
        raise SettingError(f"data_root is {settings.REMOTE}, and {lack}")
    spool = Spool(chosen.spool)
    level = logging.getLevelNamesMapping().get(chosen.log_level.upper(), logging.INFO)
    log_to_stderr(level)
    failpoints, timing = testing.read_failpoints(os.environ), testing.read_timing(os.environ)
    return Worker(chosen, spool, failpoints, timing).run()


def _join(given: argparse.Namespace) -> int:
    config = _config(given)
    joined = join.join(given.url, given.pin, config, given.address, force=given.force)
    command = " ".join(install.SERVICE.command if install.SERVICE.command[1:] else ["pit-worker"])
    where = f" --config {shlex.quote(str(config))}"
    run = f"{command} run{'' if config == settings.default_config() else where}"
    _say(f"this machine is node {joined.node} of cluster {joined.cluster}; its settings are in {config}")
    _say(_how_jobs_run(config))
    _say(f"`{run}` starts the worker in the foreground")
    _say(f"`{command} install{where}`, as root, makes it a systemd service")
    return 0


def _how_jobs_run(config: Path) -> str:
    """Whose account jobs run as, if the account that joins also runs the worker."""
    text = accounts.describe(settings.load({"config": str(config)}))
    if os.geteuid() == 0:
        return text
    return f"{text}; a worker that root runs keeps users apart"


def _install(given: argparse.Namespace) -> int:
    if given.print:
        sys.stdout.write(install.render_unit(_config(given)))
        return 0
    if given.background:
        log_file = background.start(_config(given), settings.load({"config": str(_config(given))}))
        _say(f"the worker runs in the background until this machine restarts; its log is {log_file}")
        return 0
    file = install.install(_config(given), for_user=given.user)
    _say(f"{file} is installed, and the worker has been started; `journalctl -u pit-worker` shows its log")
    chosen = settings.load({"config": str(_config(given))})
    _say(accounts.describe(chosen))
    if accounts.why_shared(chosen):
        _say(f"that is not safe for several users: {accounts.OBJECTION}")
    return 0


def _explain_settings(given: argparse.Namespace, error: SettingError) -> doctor.Finding:
    file = _config(given) / settings.FILE_NAME
    if file.exists():
        return doctor.Finding(
            "settings", doctor.Mark.BAD, str(error), f"fix {file}; the worker does not start"
        )
    hint = "`pit add node:NAME` prints the command to join"
    text = f"this machine has not joined a head: {error}"
    return doctor.Finding("head", doctor.Mark.DOUBTFUL, text, hint)


def _doctor(given: argparse.Namespace) -> int:
    try:
        chosen = settings.load(vars(given))
        findings = [*doctor.check_head(chosen, time.time())]
    except SettingError as error:
        chosen = None
        findings = [_explain_settings(given, error)]
    findings += doctor.check_machine(chosen)
    findings += check_engine(Engine(), is_needed=chosen is not None and chosen.runtime == "docker")
    if chosen and chosen.runtime == "docker":
        findings.append(check_firewall(Firewall(chosen.spool, has_overlay=bool(chosen.overlay))))
    findings += check_site()
    if given.json:
        _say(json.dumps([to_json(finding) for finding in findings]))
    else:
        for finding in findings:
            _say(str(finding))
    return PROBLEM if any(finding.mark is doctor.Mark.BAD for finding in findings) else 0


def _config(given: argparse.Namespace) -> Path:
    return Path(given.config).absolute() if given.config else settings.default_config()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pit-worker", description="Run processes on this node for a head of pit.", allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_join(commands)
    _add_run(commands)
    _add_install(commands)
    _add_doctor(commands)
    commands_of_sites.add(commands, _add)
    return parser


def _add_join(commands: Any) -> None:
    command = _add(commands, "join", _join, "become a node of a head", (
        "The join code comes from PIT_WORKER_JOIN_CODE, or is prompted for; `pit add node:NAME` shows it.\n\n"
        "example: PIT_WORKER_JOIN_CODE=… pit-worker join https://head.example.org:7478 sha256:28ab…"
    ))  # fmt: skip
    command.add_argument("url", metavar="URL", help="the head's address")
    command.add_argument("pin", metavar="PIN", nargs="?", help="the pin of its certificate")
    command.add_argument("--address", help="where other nodes reach this one (default: its full name)")
    command.add_argument(
        "--force", action="store_true", help="join again, although this machine has joined before"
    )


def _add_run(commands: Any) -> None:
    command = _add(
        commands, "run", _run, "run the worker in the foreground", "example: pit-worker run --config /etc/pit"
    )
    command.add_argument("--url", help="the head's address")
    command.add_argument("--token-file", help="file with this node's token")
    command.add_argument("--ca-file", help="certificates to trust for the head")
    command.add_argument("--spool", help="directory in which the worker stores its state")
    command.add_argument("--address", help="where other nodes reach the processes of this one")


def _add_install(commands: Any) -> None:
    command = _add(commands, "install", _install, "install the worker as a systemd service",
                 "example: pit-worker install --print > pit-worker.service")  # fmt: skip
    command.add_argument("--print", action="store_true", help="print the unit and change nothing")
    command.add_argument("--user", action="store_true", help="as a service of your own account, without root")
    command.add_argument(
        "--background", action="store_true", help="no service: run it until the machine restarts"
    )


def _add_doctor(commands: Any) -> None:
    command = _add(commands, "doctor", _doctor, "check whether this machine can be a node",
                 "example: pit-worker doctor")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print JSON")


def _add(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], purpose: str, epilog: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=purpose,
        description=purpose.capitalize() + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    command.add_argument(
        "--config", metavar="DIR", help=f"holds {settings.FILE_NAME}, the token and the head's certificate"
    )
    return command


if __name__ == "__main__":
    sys.exit(main())
