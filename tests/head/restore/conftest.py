"""A head that goes back to a backup."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pit_server.admin.backup import backup
from pit_server.admin.backup.restore import restore
from pit_server.app import create_app, create_head, take_over
from pit_server.context import Head
from pit_server.settings import Settings
from tests.support.clusters.head import Person, Worker


@dataclass
class Restored:
    """The head after a backup was restored, and the same people and nodes."""

    head: Head

    def person(self, before: Person) -> Person:
        return Person(create_app(self.head), before.name, before.token)

    def worker(self, before: Worker) -> Worker:
        """As it was: it knows what happened after the backup."""
        same = Worker(create_app(self.head), before.name, before.token)
        same.epoch, same.seen = before.epoch, before.seen
        return same


@dataclass
class Backup:
    settings: Settings
    file: Path
    made: list[Head]

    def make(self) -> None:
        if self.settings.database_url:
            (self.settings.home / "head.toml").write_text(f'database_url = "{self.settings.database_url}"\n')
        backup.make(self.settings, self.file)

    def restore(self, head: Head) -> Restored:
        """Kill the head, restore the backup and start another."""
        head.database.dispose()
        restore(self.settings.home, self.file, force=True)
        self.made.append(create_head(self.settings, take_over(self.settings)))
        return Restored(self.made[-1])


@pytest.fixture
def a_backup(settings: Settings, head: Head, tmp_path: Path) -> Iterator[Callable[[], Backup]]:
    """Make a backup of the head, as it is now."""
    made: list[Head] = []

    def build() -> Backup:
        one = Backup(settings, tmp_path / "backup.tar", made)
        one.make()
        return one

    yield build
    for one in made:
        one.wakeups.close()
        one.database.dispose()
