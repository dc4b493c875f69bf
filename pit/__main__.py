"""Where the command `pit` begins; `python -m pit` is the same."""

import signal


def main() -> None:
    # Until there is someone to catch it, Ctrl-C just ends the program: no traceback of half an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pit.cli import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
