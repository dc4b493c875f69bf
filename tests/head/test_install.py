"""`pit-head install`: the unit, who may install it, and as whom the head runs."""

import os
import pwd
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pit_protocol.system import systemd
from pit_server.cli import cli


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A head's home, a folder for units, and a `systemctl` that records its arguments."""
    for name in ("home", "units", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/told\n')
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(systemd, "UNITS", tmp_path / "units")
    monkeypatch.setattr(systemd, "BOOTED", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path / "home"


def run(home: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["install", "--home", str(home), *words])


def test_print_shows_the_unit_and_changes_nothing(home: Path) -> None:
    lines = run(home, "--print").stdout.splitlines()
    assert f"ExecStart={sys.executable} -m pit_server serve --home {home}" in lines
    assert {f"User={pwd.getpwuid(os.getuid()).pw_name}", "Restart=always"} <= set(lines)
    assert not [line for line in lines if "@" in line]
    assert not list((home.parent / "units").iterdir())


def test_the_unit_is_written_and_started(home: Path) -> None:
    result = run(home)
    assert (result.exit_code, "pit-head.service is installed" in result.stdout) == (0, True)
    assert (home.parent / "units/pit-head.service").stat().st_mode & 0o777 == 0o644
    assert (home.parent / "told").read_text().splitlines() == [
        "daemon-reload", "enable pit-head.service", "restart pit-head.service",
    ]  # fmt: skip


def test_without_root_the_error_has_the_command_for_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = run(home)
    assert result.exit_code == 1
    assert f"pit_server install --home {home}` does" in result.stderr


def test_without_systemd_it_says_what_works(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd, "BOOTED", home / "nothing")
    assert "`pit-head serve` works without it" in run(home).stderr


def test_without_a_home_it_says_how_to_make_one(home: Path) -> None:
    result = run(home / "none")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (
        1,
        f"pit-head: there is no directory {home}/none",
    )


def test_a_wrong_setting_is_told_before_the_service_is_installed(home: Path) -> None:
    (home / "head.toml").write_text("bnid = 1\n")
    assert "has no setting 'bnid'" in run(home).stderr
    assert not (home.parent / "told").exists()
