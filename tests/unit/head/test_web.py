"""The web page: what it is made of, and how it writes times."""

import hashlib
import json
from pathlib import Path

import pytest

from pit_server import web
from pit_server.web import formats

WEB, AXE = Path(web.__file__).parent / "static" / "vendor", Path(__file__).parents[2] / "browser" / "vendor"


@pytest.mark.parametrize("place", [WEB, AXE])
def test_vendored_files_are_those_of_the_lock_file(place: Path) -> None:
    """What was changed by hand, or updated without its record, is found here."""
    lock = json.loads((place / "lock.json").read_text())
    recorded = {name: digest for package in lock.values() for name, digest in package["files"].items()}
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.iterdir()}
    del there["lock.json"]
    assert there == recorded
    assert all(
        package["version"] and package["integrity"] and package["license"] for package in lock.values()
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (-3, "0 s"), (59, "59 s"), (61, "1 min"), (3700, "1 h 1 min"), (90_000, "1 d 1 h")],
)
def test_a_length_of_time_is_short(seconds: float | None, text: str) -> None:
    assert formats.span(seconds) == text
