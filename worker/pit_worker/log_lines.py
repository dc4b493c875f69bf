"""The log of a worker: lines on stderr."""

import logging
import sys


def log_to_stderr(level: int = logging.INFO) -> None:
    logging.basicConfig(
        level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # It prints a traceback for each answer that breaks off; the worker logs that itself, in a line.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
