"""The command `pit-worker`."""

import argparse
import logging
import sys
from collections.abc import Sequence

from pit_worker import settings
from pit_worker.settings import SettingError
from pit_worker.spool import Spool
from pit_worker.worker import Worker


def main(arguments: Sequence[str] | None = None) -> int:
    given = vars(_parser().parse_args(arguments))
    try:
        chosen = settings.load(given)
        settings.read_token(chosen.token_file)
        spool = Spool(chosen.spool)
    except SettingError as error:
        sys.stderr.write(f"pit-worker: {error}\n")
        return 1
    level = logging.getLevelNamesMapping().get(chosen.log_level.upper(), logging.INFO)
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    return Worker(chosen, spool).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pit-worker", description="Run processes on this node for a head of pit."
    )
    run = parser.add_subparsers(dest="action", required=True).add_parser(
        "run", help="work until told to leave"
    )
    run.add_argument("--url", help="the head's address")
    run.add_argument("--token-file", help="file with this node's token")
    run.add_argument("--spool", help="directory in which the worker remembers its processes")
    run.add_argument("--address", help="where other nodes reach the processes of this one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
