"""Which directories here are copies, as a repeated pull has to know."""

from pathlib import Path

import pytest

from pit.transfer import pulled


def test_a_copy_is_known_by_any_way_to_it_until_it_is_replaced(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    assert not pulled.is_copy("head home/d", copy)
    pulled.note("head home/d", copy)
    (tmp_path / "link").symlink_to(copy)
    assert pulled.is_copy("head home/d", copy) and pulled.is_copy("head home/d", tmp_path / "link")
    assert not pulled.is_copy("head home/other", copy)
    copy.rename(tmp_path / "away")
    copy.mkdir()
    assert not pulled.is_copy("head home/d", copy)


def test_a_broken_file_and_an_unwritable_place_are_no_obstacle(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled.note("source", tmp_path)
    for text in ("{", "[]", '{"a": 1}'):
        (home / ".cache/pit/pulled.json").write_text(text)
        assert not pulled.is_copy("source", tmp_path)
    pulled.note("source", tmp_path)
    assert pulled.is_copy("source", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    pulled.note("source", tmp_path)
    assert not pulled.is_copy("source", tmp_path)


def test_the_oldest_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulled, "MOST", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        pulled.note(name, tmp_path / name)
    assert [pulled.is_copy(name, tmp_path / name) for name in ("a", "b", "c")] == [False, True, True]
