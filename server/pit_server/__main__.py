"""Entry of `pit-head`; says what to install where the head's packages are missing."""

import importlib.util
import os
import sys

NEEDED = ("flask", "sqlalchemy", "alembic", "gunicorn")


def main() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"pit-head: {', '.join(missing)} not installed\npip install 'gitpit[head]' brings the head\n"
        )
        sys.exit(1)
    # Only now: the client's light install has this package, too, without what it needs.
    from pit_server import failpoints
    from pit_server.cli import cli

    failpoints.install_from(os.environ)
    cli(prog_name="pit-head")


if __name__ == "__main__":
    main()
