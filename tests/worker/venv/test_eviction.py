"""The least recently used environments go first, and nothing that a user puts there harms the worker."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import Account, Venv
from pit_worker.loop import Loop
from pit_worker.spool.entry import Entry, Intent, Key
from pit_worker.spool.environment import StartRefused
from pit_worker.timing import Timing
from pit_worker.venv.cache import VenvCache
from pit_worker.venv.eviction import KIB_PER_GIB, TOO_LARGE, EvictionTimer, evict
from tests.support.stubs.worker_head import a_spec

VENV = Venv("requirements.txt", "", "ann")
Make = Callable[..., Path]


def use(venv: Path) -> None:
    """Use it later than any other, by a clock that may be coarse."""
    lock = venv.with_name(f"{venv.name}.lock")
    newest = max((path.stat().st_ctime for path in venv.parents[1].glob("*/*.lock")), default=0.0)
    lock.touch()
    while lock.stat().st_ctime <= newest:
        os.utime(lock)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(name: str, user: str = "ann") -> Path:
        """An environment that was used after all others."""
        venv = tmp_path / "venvs/lab" / user / name
        (venv / "venv").mkdir(parents=True)
        use(venv)
        (venv / "venv").chmod(0o500)
        return venv

    return make


def one_gib_each(folder: Path) -> int:
    return KIB_PER_GIB * sum(path.is_dir() for path in folder.glob("*/*/*"))


def test_the_least_recently_used_of_all_users_are_removed_until_the_rest_fits(tmp_path: Path, make: Make):
    venvs = [make("one"), make("two", "bob"), make("three"), make("four", "bob")]
    use(venvs[0])
    evict(tmp_path / "venvs", 2, one_gib_each)
    assert [venv.name for venv in venvs if venv.exists()] == ["one", "four"]
    assert not venvs[1].with_name("two.lock").exists()


def test_within_the_limit_or_without_one_nothing_is_removed(tmp_path: Path, make: Make):
    venvs = [make("one"), make("two")]
    evict(tmp_path / "venvs", 2, one_gib_each)
    evict(tmp_path / "venvs", 0, one_gib_each)
    assert all(venv.exists() for venv in venvs)


def test_one_that_is_used_stays_and_the_next_goes(tmp_path: Path, make: Make):
    used, other = make("used"), make("other")
    lock = os.open(used.with_name("used.lock"), os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_SH)
    evict(tmp_path / "venvs", 1, one_gib_each)
    os.close(lock)
    assert used.exists() and not other.exists()


def test_links_pipes_and_strange_names_are_removed_and_not_followed(tmp_path: Path, make: Make):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").touch()
    user = make("env").parent
    os.mkfifo(user / "pipe.lock")
    (user / "pipe").mkdir()
    (user / "link").symlink_to(precious)
    (user / "link.lock").symlink_to(precious / "data")
    (user / ".lock").touch()
    (user / "file").write_text("x")
    evict(tmp_path / "venvs", 1, lambda _: 2 * KIB_PER_GIB)
    assert list(user.iterdir()) == []
    assert (precious / "data").exists()


def test_a_user_who_alone_needs_more_than_all_may_have_is_named(tmp_path: Path, make: Make):
    places = [make("one").parent, make("two", "bob").parent]
    (places[0] / "one.lock").unlink()
    with (places[1] / "two.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        sizes = {tmp_path / "venvs": 3, places[0]: 1, places[1]: 2}
        assert evict(tmp_path / "venvs", 1, lambda place: sizes[place] * KIB_PER_GIB) == [places[1]]


def test_processes_of_such_a_user_are_stopped_and_others_are_not(tmp_path: Path):
    cache, loop, stopped = VenvCache(tmp_path), Loop(), []
    specs = [replace(a_spec("true"), venv=Venv("a.txt", "", user)) for user in ("ann", "bob")]
    specs.append(a_spec("true"))
    entries = [
        Entry(tmp_path, Intent(number, 1, "lab", "boot", "/data", spec)) for number, spec in enumerate(specs)
    ]

    def on_excess(key: Key, reason: str) -> None:
        stopped.append((key.process, reason))
        loop.leave(0)

    too_large = [tmp_path / "lab/bob"]
    EvictionTimer(loop, cache, lambda: too_large, lambda: entries, on_excess, Timing()).start()
    loop.run()
    loop.close()
    assert stopped == [(1, TOO_LARGE)]


def test_a_users_directory_is_the_users_own(tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    cache = VenvCache(tmp_path / "venvs")
    place = cache.make_user_dir("lab", VENV, Account(200_001, 200_002))
    assert place == tmp_path / "venvs/lab/ann-200001"
    stat = place.stat()
    assert (stat.st_uid, stat.st_gid, stat.st_mode & 0o777) == (200_001, 200_002, 0o700)
    assert place.parent.stat().st_uid == 0 and place.parent.stat().st_mode & 0o022 == 0
    assert cache.make_user_dir("lab", VENV, Account(200_001, 200_002)) == place


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "venvs").touch()
    with pytest.raises(StartRefused, match="venvs/lab/ann, for Python environments, cannot be used"):
        VenvCache(tmp_path / "venvs").make_user_dir("lab", VENV, None)
