"""Settings: from a file, overruled by the environment; a mistake is told by name."""

from dataclasses import fields
from pathlib import Path

import pytest

from pit_protocol.problem import Problem
from pit_server.settings import CHOICES, Settings, load


def write(home: Path, text: str) -> Path:
    (home / "head.toml").write_text(text)
    return home


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path, {}) == Settings(home=tmp_path)
    assert Settings(home=tmp_path).books == f"sqlite:///{tmp_path / 'pit.db'}"
    assert Settings(home=tmp_path).root == tmp_path / "data"


def test_the_file_sets_and_the_environment_overrules(tmp_path: Path) -> None:
    write(tmp_path, 'bind = "0.0.0.0:1"\nthreads = 7\nhold_s = 2\ndata_root = "/srv/data"\n')
    settings = load(
        tmp_path, {"PIT_HEAD_THREADS": "9", "PIT_HEAD_DATABASE_URL": "postgresql://h/d", "OTHER": "x"}
    )
    assert (settings.bind, settings.threads, settings.hold_s) == ("0.0.0.0:1", 9, 2.0)
    assert (settings.books, settings.root) == ("postgresql://h/d", Path("/srv/data"))


def test_protocols_are_a_list_in_one_text(tmp_path: Path) -> None:
    assert Settings(home=tmp_path, git_protocols=" https, ssh ,,file").protocols == ("https", "ssh", "file")


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has no setting 'treads'") as caught:
        load(write(tmp_path, "treads = 7\n"), {})
    assert "threads" in caught.value.hint


def test_a_file_cannot_move_the_home(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="has no setting 'home'"):
        load(write(tmp_path, 'home = "/"\n'), {})


def test_a_file_that_is_no_toml_is_told(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="is no TOML"):
        load(write(tmp_path, "threads = \n"), {})
    (tmp_path / "head.toml").write_bytes(b'bind = "\xff"\n')
    with pytest.raises(Problem, match="is no TOML"):
        load(tmp_path, {})


@pytest.mark.parametrize(
    "line",
    ['threads = "many"', "threads = [1]", "hold_s = {}", "threads = 1.5"],
)
def test_a_value_of_the_wrong_kind_is_told(tmp_path: Path, line: str) -> None:
    with pytest.raises(Problem, match=line.split()[0]):
        load(write(tmp_path, line + "\n"), {})


def test_a_wrong_value_in_the_environment_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="PIT_HEAD_THREADS must be int, not 'x'"):
        load(tmp_path, {"PIT_HEAD_THREADS": "x"})


def test_every_setting_can_come_from_the_environment(tmp_path: Path) -> None:
    for field in fields(Settings):
        if field.name == "home":
            continue
        text = CHOICES[field.name][-1] if field.name in CHOICES else "77" if "lost" in field.name else "7"
        settings = load(tmp_path, {f"PIT_HEAD_{field.name.upper()}": text})
        assert str(getattr(settings, field.name)) in (text, f"{text}.0")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("registration", "foo", "registration must be one of auto, open, approve, closed, not 'foo'"),
        ("bcrypt_cost", "3", "bcrypt_cost must be from 4 to 20, not 3"),
        ("logins_per_minute", "0", "logins_per_minute must be from 1 to 1000000, not 0"),
        ("lost_after_s", "5", r"lost_after_s must be 0 \(never\) or at least 4 times hold_s, 20, not 5"),
    ],
)
def test_a_value_that_no_head_can_work_with_is_told_before_one_is_started(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(Problem, match=message):
        load(tmp_path, {f"PIT_HEAD_{name.upper()}": text})
