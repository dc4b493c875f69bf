"""Settings: from a file, overruled by the environment; an error names the setting."""

from dataclasses import fields
from pathlib import Path

import pytest

from pit_protocol.problem import Problem
from pit_server.settings import CHOICES, Settings, for_one_user, load


def write(home: Path, text: str) -> Path:
    (home / "head.toml").write_text(text)
    return home


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path, {}) == Settings(home=tmp_path)
    assert Settings(home=tmp_path).sqlalchemy_url == f"sqlite:///{tmp_path / 'pit.db'}"
    assert Settings(home=tmp_path).root == tmp_path / "data"


def test_the_file_sets_and_the_environment_overrules(tmp_path: Path) -> None:
    write(tmp_path, 'bind = "0.0.0.0:1"\nthreads = 7\nhold_s = 2\ndata_root = "/srv/data"\n')
    settings = load(
        tmp_path, {"PIT_HEAD_THREADS": "9", "PIT_HEAD_DATABASE_URL": "postgresql://h/d", "OTHER": "x"}
    )
    assert (settings.bind, settings.threads, settings.hold_s) == ("0.0.0.0:1", 9, 2.0)
    assert (settings.sqlalchemy_url, settings.root) == ("postgresql://h/d", Path("/srv/data"))


def test_protocols_are_a_list_in_one_text(tmp_path: Path) -> None:
    assert Settings(home=tmp_path, git_protocols=" https, ssh ,,file").protocols == ("https", "ssh", "file")


def test_the_head_of_pit_up_is_closed_unless_its_user_wants_otherwise(tmp_path: Path) -> None:
    assert for_one_user(load(tmp_path, {})).registration == "closed"
    assert for_one_user(load(tmp_path, {"PIT_HEAD_REGISTRATION": "auto"})).registration == "closed"
    assert for_one_user(load(write(tmp_path, 'registration = "open"\n'), {})).registration == "open"


def test_hosts_are_a_list_in_one_text(tmp_path: Path) -> None:
    settings = load(write(tmp_path, 'hosts = "pit.example.org, 192.0.2.7,,"\n'), {})
    assert settings.extra_hosts == ("pit.example.org", "192.0.2.7")


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has no setting 'treads'") as caught:
        load(write(tmp_path, "treads = 7\n"), {})
    assert "threads" in caught.value.hint


def test_a_file_cannot_move_the_home(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has no setting 'home'"):
        load(write(tmp_path, 'home = "/"\n'), {})


def test_an_invalid_toml_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is not valid TOML"):
        load(write(tmp_path, "threads = \n"), {})
    (tmp_path / "head.toml").write_bytes(b'bind = "\xff"\n')
    with pytest.raises(Problem, match="is not valid TOML"):
        load(tmp_path, {})


@pytest.mark.parametrize(
    "line",
    ['threads = "many"', "threads = [1]", "hold_s = {}", "threads = 1.5"],
)
def test_a_value_of_the_wrong_type_is_reported(tmp_path: Path, line: str) -> None:
    with pytest.raises(Problem, match=line.split()[0]):
        load(write(tmp_path, line + "\n"), {})


def test_a_wrong_value_in_the_environment_is_reported_by_its_variable(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="PIT_HEAD_THREADS must be a whole number, not 'x'"):
        load(tmp_path, {"PIT_HEAD_THREADS": "x"})


def test_every_setting_can_come_from_the_environment(tmp_path: Path) -> None:
    for field in fields(Settings):
        if field.name == "home":
            continue
        text = CHOICES[field.name][-1] if field.name in CHOICES else "77" if "lost" in field.name else "9"
        text = {"share_weights": "gpu=7", "default_time": "7h", "max_time": "7h"}.get(field.name, text)
        settings = load(tmp_path, {f"PIT_HEAD_{field.name.upper()}": text})
        assert str(getattr(settings, field.name)) in (text, f"{text}.0")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("registration", "foo", "registration must be one of auto, open, approve, closed, not 'foo'"),
        ("bcrypt_cost", "3", "bcrypt_cost must be from 4 to 20, not 3"),
        ("share_weights", "gpu", "share_weights must be like gpu=1,cpu=0.05, not 'gpu'"),
        ("share_weights", "gpu=-1", "a weight in share_weights must be 0 or more, not -1"),
        ("placement", "best", "placement must be one of pack, spread, sequential, random, not 'best'"),
        ("logins_per_minute", "0", "logins_per_minute must be from 1 to 1000000, not 0"),
        ("lost_after_s", "5", r"lost_after_s must be 0 \(never\) or at least 4 times hold_s, 20, not 5"),
    ],
)
def test_a_value_out_of_bounds_is_reported_before_the_head_starts(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(Problem, match=message):
        load(tmp_path, {f"PIT_HEAD_{name.upper()}": text})
