"""Entry point of the command `pit`, also for `python -m pit`."""

import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> None:
    # During the imports Ctrl-C ends the program without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pit.cli import main as run

    signal.signal(signal.SIGINT, interrupt)
    run()


def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Raise KeyboardInterrupt."""
    # An object that Ctrl-C left half made, such as a response, would print an error when it is deleted.
    sys.unraisablehook = lambda _: None
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
