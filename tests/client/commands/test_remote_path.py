"""Places on the head, as users write them."""

import click
import pytest

from pit.args.remote_path import RemotePath, outermost, parse_remote_path
from pit.commands.remove import _parse_files


def test_what_is_in_a_directory_goes_with_it() -> None:
    assert outermost({"d/x/y", "d", "d 2", "d/x", "e/f"}) == ["d", "d 2", "e/f"]


@pytest.mark.parametrize(
    ("words", "domain", "path"),
    [
        (("190",), "job:190", ""),
        (("190", "keep/model.bin"), "job:190", "keep/model.bin"),
        (("job:7", "/keep/"), "job:7", "keep"),
        (("190/keep",), "job:190", "keep"),
        (("home",), "home", ""),
        (("home:data/train",), "home", "data/train"),
        (("home/data", "train"), "home", "data/train"),
        (("home", "./a//b/./c"), "home", "a/b/c"),
        (("user:anna",), "user:anna", ""),
        (("user:anna:x",), "user:anna", "x"),
        (("group:students/x y",), "group:students", "x y"),
        (("shared", "new\nline"), "shared", "new\nline"),
    ],
)
def test_a_remote_path_is_a_domain_and_a_path(words: tuple[str, ...], domain: str, path: str) -> None:
    assert parse_remote_path(*words) == RemotePath(domain, path)


@pytest.mark.parametrize("word", ["", "node:n0", "alias:x", "user:", "0", "9" * 11, "homes", "job:x", "-"])
def test_an_invalid_remote_path_is_refused(word: str) -> None:
    with pytest.raises(click.UsageError, match="is not a data directory"):
        parse_remote_path(word)


@pytest.mark.parametrize("path", ["..", "../x", "a/../b"])
def test_no_path_leads_out(path: str) -> None:
    with pytest.raises(click.UsageError, match="leads out"):
        parse_remote_path("home", path)


def test_names_travel_as_bytes() -> None:
    assert RemotePath("home", "caf\udce9 ?#%/x").route == "/files/home/caf%E9%20%3F%23%25/x"


def test_a_pattern_is_split_where_it_begins() -> None:
    where = RemotePath("job:1", "keep/run-*/loss.txt")
    assert where.is_pattern
    assert where.split_pattern() == (RemotePath("job:1", "keep"), "run-*/loss.txt")


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (("home", "x"), ["home x"]),
        (("home", "job:5"), ["home job:5"]),
        (("home:x", "group:lab/y"), ["home x", "group:lab y"]),
        (("group:lab", "data", "other"), ["group:lab data", "group:lab other"]),
        (("5", "keep"), ["job:5 keep"]),
        (("job:5",), []),
        (("job:5", "job:6"), []),
        (("5", "6"), []),
        (("group:lab",), []),
        (("user:anna", "node:n0"), []),
    ],
)
def test_remove_tells_files_from_entities(words: tuple[str, ...], files: list[str]) -> None:
    assert [str(where) for where in _parse_files(words)] == files
