"""The systemd unit: its content, and who may install it where."""

import sys
from pathlib import Path

import pytest

from pit_protocol.system import systemd as service
from pit_worker.__main__ import main
from pit_worker.admin import install


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config").mkdir()
    (tmp_path / "config/worker.toml").write_text(
        'url = "https://head.example.org"\ntoken_file = "token"\nspool = "spool"\n'
    )
    return tmp_path / "config"


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for units, and a `systemctl` that records its arguments."""
    (tmp_path / "units").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/told\n')
    (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(service, "UNITS", tmp_path / "units")
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return tmp_path


def test_print_shows_the_unit_and_changes_nothing(
    systemd: Path, config: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["install", "--print", "--config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"ExecStart={sys.executable} -m pit_worker run --config {config}" in lines
    assert {"User=root", "KillMode=process", "Restart=always", "RestartPreventExitStatus=1 2"} <= set(lines)
    assert not [line for line in lines if "@" in line]
    assert not list((systemd / "units").iterdir())


def test_the_unit_is_written_and_started(systemd: Path, config: Path):
    assert main(["install", "--config", str(config)]) == 0
    unit = systemd / "units/pit-worker.service"
    assert unit.read_text() == install.render_unit(config)
    assert unit.stat().st_mode & 0o777 == 0o644
    assert (systemd / "told").read_text().splitlines() == [
        "daemon-reload", "enable pit-worker.service", "restart pit-worker.service",
    ]  # fmt: skip


def test_without_root_it_can_be_a_service_of_the_account(
    systemd: Path, config: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(systemd / "home"))
    (systemd / "bin/loginctl").symlink_to("systemctl")
    assert main(["install", "--user", "--config", str(config)]) == 0
    lines = (systemd / "home/systemd/user/pit-worker.service").read_text().splitlines()
    assert f"ExecStart={sys.executable} -m pit_worker run --config {config}" in lines
    assert "WantedBy=default.target" in lines
    assert not [line for line in lines if line.startswith(("User=", "OOMScoreAdjust="))]
    assert (systemd / "told").read_text().splitlines() == [
        "--user daemon-reload", "--user enable pit-worker.service", "--user restart pit-worker.service",
        "enable-linger",
    ]  # fmt: skip


def test_it_says_as_whom_jobs_run_and_objects_to_one_account_for_all(
    systemd: Path, config: Path, capsys: pytest.CaptureFixture[str]
):
    (config / "worker.toml").write_text(
        'url = "https://head.example.org"\ntoken_file = "token"\nspool = "spool"\nrun_as = "worker"\n'
    )
    assert main(["install", "--config", str(config)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("jobs of all users run as ")
    assert said[2].startswith("that is not safe for several users: a head with several users gives")


def test_the_program_that_installs_is_the_one_that_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script = tmp_path / "a venv/bin/pit-worker"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.setattr(sys, "argv", [str(script)])
    unit = install.render_unit(Path("/etc/100%"))
    assert f'ExecStart="{script}" run --config /etc/100%%\n' in unit


def test_without_systemd_it_says_so(
    systemd: Path, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(service, "BOOTED", systemd / "nothing")
    assert main(["install", "--config", str(config)]) == 1
    assert "does not run systemd; `pit-worker install --print` prints" in capsys.readouterr().err


def test_without_root_the_error_has_the_command_for_root(
    systemd: Path, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(["install", "--config", str(config)]) == 1
    assert f"pit_worker install --config {config}` does" in capsys.readouterr().err


def test_a_machine_that_has_not_joined_gets_no_service(
    systemd: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["install", "--config", str(tmp_path / "none")]) == 1
    assert "`pit-worker join` writes it" in capsys.readouterr().err
    assert not list((systemd / "units").iterdir())


def test_an_error_of_systemctl_is_shown(systemd: Path, config: Path, capsys: pytest.CaptureFixture[str]):
    (systemd / "bin/systemctl").write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    assert main(["install", "--config", str(config)]) == 1
    assert capsys.readouterr().err == "pit-worker: `systemctl daemon-reload` failed: no bus\n"
