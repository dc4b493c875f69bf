"""The commands of `pit-worker`."""

import argparse
import json
import logging
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pit_protocol import rclone
from pit_protocol.wire import to_json
from pit_worker import doctor, install, join, settings, transport
from pit_worker.engine import Engine
from pit_worker.engine_check import check_engine, check_firewall
from pit_worker.firewall import Firewall
from pit_worker.settings import SettingError
from pit_worker.spool import Spool
from pit_worker.worker import Worker

PROBLEM = 1  # a person has to act; systemd does not start the worker anew
CRASH = 70
INTERRUPTED = 130

log = logging.getLogger("pit_worker")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        return int(given.act(given))
    except SettingError as error:
        # A stranger's words may be in it: none of them shall steer the terminal.
        text = "".join(character if character.isprintable() else "?" for character in str(error))
        sys.stderr.write(f"pit-worker: {text}\n")
        return PROBLEM
    except (KeyboardInterrupt, EOFError):
        sys.stderr.write("\n")
        return INTERRUPTED
    except Exception:
        log.exception("this is a bug of pit-worker")
        return CRASH


def _run(given: argparse.Namespace) -> int:
    chosen = settings.load(vars(given))
    settings.read_token(chosen.token_file)
    transport.read_certificates(chosen.ca_file)
    if chosen.data_root == settings.REMOTE and (lack := rclone.lack()):
        raise SettingError(f"data_root is {settings.REMOTE}, and {lack}")
    spool = Spool(chosen.spool)
    level = logging.getLevelNamesMapping().get(chosen.log_level.upper(), logging.INFO)
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    return Worker(chosen, spool).run()


def _join(given: argparse.Namespace) -> int:
    config = _config(given)
    joined = join.join(given.url, given.pin, config, given.address, force=given.force)
    command = " ".join(install.own_command() if install.own_command()[1:] else ["pit-worker"])
    where = f" --config {shlex.quote(str(config))}"
    _say(f"this machine is node {joined.node} of cluster {joined.cluster}; what it needs is in {config}")
    _say(f"`{command} run{'' if config == settings.default_config() else where}` works until it is stopped")
    _say(f"`{command} install{where}`, as root, makes it a service of this machine")
    return 0


def _install(given: argparse.Namespace) -> int:
    if given.print:
        sys.stdout.write(install.render_unit(_config(given)))
        return 0
    file = install.install(_config(given))
    _say(f"{file} is installed, and the worker is started; `journalctl -u pit-worker` shows its log")
    return 0


def _unfit_settings(given: argparse.Namespace, error: SettingError) -> doctor.Finding:
    file = _config(given) / settings.FILE_NAME
    if file.exists():
        return doctor.Finding(
            "settings", doctor.Mark.BAD, str(error), f"mend {file}; the worker does not start"
        )
    hint = "`pit add node:NAME` prints the line that does"
    text = f"this machine has not joined one: {error}"
    return doctor.Finding("head", doctor.Mark.DOUBTFUL, text, hint)


def _doctor(given: argparse.Namespace) -> int:
    try:
        chosen = settings.load(vars(given))
        findings = [*doctor.check_head(chosen, time.time())]
    except SettingError as error:
        chosen = None
        findings = [_unfit_settings(given, error)]
    findings += doctor.check_machine(chosen)
    findings += check_engine(Engine(), is_needed=chosen is not None and chosen.runtime == "docker")
    if chosen and chosen.runtime == "docker":
        findings.append(check_firewall(Firewall(chosen.spool)))
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
    actions = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_join(actions)
    _add_run(actions)
    _add_install(actions)
    _add_doctor(actions)
    return parser


def _add_join(actions: Any) -> None:
    words = _add(actions, "join", _join, "become a node of a head", (
        "The join code comes from PIT_WORKER_JOIN_CODE, or is asked for; `pit add node:NAME` shows it.\n\n"
        "example: PIT_WORKER_JOIN_CODE=… pit-worker join https://head.example.org:7478 sha256:28ab…"
    ))  # fmt: skip
    words.add_argument("url", metavar="URL", help="the head's address")
    words.add_argument("pin", metavar="PIN", nargs="?", help="by which its certificate is known")
    words.add_argument("--address", help="where other nodes reach this one (default: its full name)")
    words.add_argument("--force", action="store_true", help="join anew a machine that has joined")


def _add_run(actions: Any) -> None:
    words = _add(
        actions, "run", _run, "work until told to leave", "example: pit-worker run --config /etc/pit"
    )
    words.add_argument("--url", help="the head's address")
    words.add_argument("--token-file", help="file with this node's token")
    words.add_argument("--ca-file", help="certificates one of which the head must show")
    words.add_argument("--spool", help="directory in which the worker remembers its processes")
    words.add_argument("--address", help="where other nodes reach the processes of this one")


def _add_install(actions: Any) -> None:
    words = _add(actions, "install", _install, "make the worker a service of systemd",
                 "example: pit-worker install --print > pit-worker.service")  # fmt: skip
    words.add_argument("--print", action="store_true", help="print the unit and do nothing")


def _add_doctor(actions: Any) -> None:
    words = _add(actions, "doctor", _doctor, "check whether this machine is fit to be a node",
                 "example: pit-worker doctor")  # fmt: skip
    words.add_argument("--json", action="store_true", help="for programs")


def _add(
    actions: Any, name: str, act: Callable[[argparse.Namespace], int], purpose: str, epilog: str
) -> argparse.ArgumentParser:
    words: argparse.ArgumentParser = actions.add_parser(
        name,
        help=purpose,
        description=purpose.capitalize() + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    words.set_defaults(act=act)
    words.add_argument(
        "--config", metavar="DIR", help=f"holds {settings.FILE_NAME}, the token and the head's certificate"
    )
    return words


if __name__ == "__main__":
    sys.exit(main())
