"""The migrations of the head's database are one chain."""

import re
from pathlib import Path

import pit_server.db.migrations
from pit_server.db.migrate import LATEST


def test_each_migration_follows_the_one_before_it_and_the_last_is_the_newest() -> None:
    folder = Path(*pit_server.db.migrations.__path__) / "versions"
    found = [
        (path.name[:4], *re.findall(r'^(?:down_)?revision = "?(\w+)"?$', path.read_text(), re.MULTILINE))
        for path in sorted(folder.glob("*.py"))
    ]
    numbers = [f"{number:04}" for number in range(1, len(found) + 1)]
    assert found == [(n, n, before) for n, before in zip(numbers, ["None", *numbers], strict=False)]
    assert numbers[-1] == LATEST
