"""Entry point of the command `pit`, also for `python -m pit`."""

import signal


def main() -> None:
    # During the imports Ctrl-C ends the program without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pit.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
