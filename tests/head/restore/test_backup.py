"""`pit-head backup` and `pit-head restore`: complete, private, and over nothing by accident."""

import io
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pit_protocol.problem import Problem
from pit_server.admin.backup.restore import restore
from pit_server.cli import cli
from pit_server.context import Head
from pit_server.db import lock
from pit_server.settings import Settings
from tests.head.restore.conftest import Backup
from tests.support.clusters.head import ONE_DATABASE, Person, Worker


def test_a_backup_has_all_of_a_head_and_only_its_owner_can_read_it(
    head: Head, settings: Settings, anna: Person, node: Worker, a_backup: Callable[[], Backup]
) -> None:
    (settings.home / "certificate.pem").write_text("certificate")
    (settings.home / "key.pem").write_text("key of the certificate")
    kept, secret = anna.submit(), (settings.home / "secret.key").read_bytes()
    saved = a_backup()
    assert stat.S_IMODE(saved.file.stat().st_mode) == 0o600
    assert [path.name for path in saved.file.parent.glob(".backup*")] == []
    lost = anna.submit()
    for name in ("certificate.pem", "key.pem", "secret.key"):
        (settings.home / name).unlink()
    restored = saved.restore(head)
    assert restored.person(anna).job(kept)["number"] == kept
    assert restored.person(anna).get(f"/jobs/{lost}").status_code == 404
    assert (settings.home / "secret.key").read_bytes() == secret
    assert (settings.home / "key.pem").read_text() == "key of the certificate"
    assert stat.S_IMODE((settings.home / "key.pem").stat().st_mode) == 0o600
    with pytest.raises(DBAPIError, match="append-only"), restored.head.database.write() as session:
        session.execute(text("DELETE FROM audit"))


def test_a_restore_replaces_nothing_unless_it_is_forced(
    head: Head, settings: Settings, anna: Person, a_backup: Callable[[], Backup]
) -> None:
    saved = a_backup()
    head.database.dispose()
    (settings.home / "secret.key").write_text("newer")
    with pytest.raises(Problem, match=r"restoring would replace .*secret.key") as refused:
        restore(settings.home, saved.file)
    assert "--force" in (refused.value.hint or "")
    assert (settings.home / "secret.key").read_text() == "newer"
    restore(settings.home, saved.file, force=True)
    (aside,) = settings.home.glob("replaced-*")
    assert (aside / "secret.key").read_text() == "newer"
    assert (aside / "pit.db").exists() == (not settings.database_url)


def test_a_restore_is_refused_while_a_head_runs(
    head: Head, settings: Settings, a_backup: Callable[[], Backup]
) -> None:
    saved = a_backup()
    head.database.dispose()
    held = lock.hold(settings.sqlalchemy_url)
    with pytest.raises(Problem, match="a head serves"):
        restore(settings.home, saved.file, force=True)
    held.close()


@ONE_DATABASE
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_backup_is_refused(
    head: Head, settings: Settings, tmp_path: Path, a_backup: Callable[[], Backup], damage: str
) -> None:
    saved = a_backup()
    content = saved.file.read_bytes()
    at = content.index(b"SQLite format 3") + 50_000
    bad = content[:at] if damage == "cut" else content[:at] + b"?" + content[at + 1 :]
    saved.file.write_bytes(bad)
    with pytest.raises(Problem, match=r"is not a complete backup|is damaged"):
        restore(tmp_path / "new", saved.file)
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("name", ["../outside", "/outside", "home/link"])
def test_a_file_that_is_no_backup_writes_nowhere(tmp_path: Path, name: str) -> None:
    member = tarfile.TarInfo(name)
    if name == "home/link":
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "bad.tar", "w") as tar:
        tar.addfile(member, io.BytesIO())
    with pytest.raises(Problem, match="is not a complete backup"):
        restore(tmp_path / "new", tmp_path / "bad.tar")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.tar", "new"]


@ONE_DATABASE
def test_the_commands_restore_into_a_new_home(
    head: Head, settings: Settings, anna: Person, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, new = tmp_path / "pit.tar", tmp_path / "new"
    cli(["backup", "--home", str(settings.home), str(file)], standalone_mode=False)
    cli(["restore", "--home", str(new), str(file)], standalone_mode=False)
    said = capsys.readouterr().out
    assert f"the next start of the head compares it with the data root {new}/data" in said
    assert (new / "pit.db").stat().st_mode & 0o777 == 0o600
    cli(["add-user", "--home", str(new), "anna"], standalone_mode=False)
    assert capsys.readouterr().out.startswith("pit_")
