"""Large files: a head that is killed in the middle of them, and memory that stays flat."""

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.clusters.local import PIT, Cluster, eventually

MIB = 1024 * 1024
SIZE = 200 * MIB


def data(cluster: Cluster) -> Path:
    """The user's home on the head."""
    cluster.ok("ls", "home")
    [folder] = (cluster.home / "head" / "data" / "home").iterdir()
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.bin"
    block = os.urandom(MIB - 8)
    with path.open("wb") as file:
        for number in range(SIZE // MIB):
            file.write(block + number.to_bytes(8))
    return path


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parts_in(folder: Path, size: int) -> dict[Path, int]:
    """What is on its way there and larger than that."""
    parts = {}
    for path in folder.glob(".pit-*.part"):
        with suppress(FileNotFoundError):
            parts[path] = path.stat().st_size
    return {path: arrived for path, arrived in parts.items() if arrived > size}


def part_in(folder: Path) -> Path | None:
    """What is on its way there, if some of it has arrived."""
    return next(iter(parts_in(folder, MIB)), None)


@contextmanager
def stopped_midway(
    cluster: Cluster, folder: Path, *arguments: str, size: int = MIB
) -> Iterator[subprocess.Popen[bytes]]:
    """A client that is halted while its file is half there."""
    with subprocess.Popen([str(PIT), *arguments], env=cluster.env, stderr=subprocess.PIPE) as client:

        def is_caught() -> bool:
            if not parts_in(folder, size):
                return False
            client.send_signal(signal.SIGSTOP)
            if parts_in(folder, size):  # and not between two files
                return True
            client.send_signal(signal.SIGCONT)
            return False

        try:
            eventually(is_caught)
            assert client.poll() is None
            yield client
        finally:
            client.kill()


def test_a_push_is_continued_after_head_and_client_were_killed(cluster: Cluster, large: Path) -> None:
    folder = data(cluster)
    with stopped_midway(cluster, folder, "push", "home", "large.bin", str(large)):
        cluster.kill("head")
    assert not (folder / "large.bin").exists()
    part = part_in(folder)
    assert part is not None
    arrived = part.stat().st_size
    cluster.ok("up")
    cluster.ok("push", "-c", "home", "large.bin", str(large))
    assert 0 < arrived < SIZE
    assert digest(folder / "large.bin") == digest(large)
    assert part_in(folder) is None
    again = cluster.json("push", "-c", "home", "large.bin", str(large))
    assert again["files"] == 0


def test_a_push_of_small_files_leaves_no_parts_when_the_head_is_killed_in_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    source, folder = tmp_path / "source", data(cluster) / "results"
    source.mkdir()
    for number in range(128):
        (source / f"{number}").write_bytes(number.to_bytes(8) * (MIB // 8))
    with stopped_midway(cluster, folder, "push", "home", "results", str(source), size=0) as client:
        looks: list[dict[Path, int]] = []

        def is_still() -> bool:
            """Whether all that had left the client is written, and of the next files a piece."""
            looks.append(parts_in(folder, 0))
            return len(looks) > 5 and looks[-1] == looks[-5]

        eventually(is_still)
        cluster.kill("head")
        assert parts_in(folder, 0)
        cluster.ok("up")
        client.send_signal(signal.SIGCONT)
        assert client.wait(120) == 0
    eventually(lambda: not parts_in(folder, 0))
    assert {path.name: digest(path) for path in folder.iterdir()} == {
        path.name: digest(path) for path in source.iterdir()
    }


def test_a_pull_is_continued_after_head_and_client_were_killed(
    cluster: Cluster, large: Path, tmp_path: Path
) -> None:
    os.link(large, data(cluster) / "large.bin")
    target = tmp_path / "target"
    target.mkdir()
    with stopped_midway(cluster, target, "pull", "home", "large.bin", str(target)):
        cluster.kill("head")
    assert not (target / "large.bin").exists()
    assert part_in(target) is not None
    cluster.ok("up")
    cluster.ok("pull", "-c", "home", "large.bin", str(target))
    assert [path.name for path in target.iterdir()] == ["large.bin"]
    assert digest(target / "large.bin") == digest(large)


def test_a_directory_is_continued_where_it_was_and_not_put_into_itself(
    cluster: Cluster, large: Path, tmp_path: Path
) -> None:
    folder, target = data(cluster) / "results", tmp_path / "copy"
    (folder / "small").mkdir(parents=True)
    (folder / "small" / "file").write_text("small")
    os.link(large, folder / "large.bin")
    with stopped_midway(cluster, target, "pull", "home", "results", str(target)):
        pass
    cluster.ok("pull", "-c", "home", "results", str(target))
    assert sorted(path.name for path in target.iterdir()) == ["large.bin", "small"]
    assert digest(target / "large.bin") == digest(large)
    assert (target / "small" / "file").read_text() == "small"
    # A copy that is whole is a directory as any other.
    cluster.ok("pull", "-c", "home", "results/small", str(target / "small"))
    assert (target / "small" / "small" / "file").read_text() == "small"


def test_a_pull_of_small_files_leaves_no_parts_when_its_client_was_killed_in_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    folder, target = data(cluster) / "results" / "below", tmp_path / "copy"
    folder.mkdir(parents=True)
    for number in range(64):
        (folder / f"{number}").write_bytes(number.to_bytes(8) * (3 * MIB // 8))
    with stopped_midway(cluster, target / "below", "pull", "home", "results", str(target), size=0):
        pass
    left = parts_in(target / "below", 0)
    cluster.ok("pull", "-c", "home", "results", str(target))
    assert left
    assert [path.name for path in target.iterdir()] == ["below"]
    assert {path.name: digest(path) for path in (target / "below").iterdir()} == {
        path.name: digest(path) for path in folder.iterdir()
    }


@pytest.mark.parametrize("command", ["push", "pull"])
def test_who_interrupts_a_transfer_need_not_wait_for_the_rest(
    cluster: Cluster, large: Path, tmp_path: Path, command: str
) -> None:
    folder, target = data(cluster) / "results", tmp_path / "copy"
    source, copy = (large.parent, folder) if command == "push" else (folder, target)
    if command == "pull":
        folder.mkdir()
        os.link(large, folder / large.name)
    with stopped_midway(
        cluster, copy, command, "home", "results", str(target if command == "pull" else source)
    ) as client:
        head = cluster.pid("head")
        frozen = [head, *map(int, Path(f"/proc/{head}/task/{head}/children").read_text().split())]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        try:
            client.send_signal(signal.SIGCONT)
            client.send_signal(signal.SIGINT)
            assert client.wait(120) == 130
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
    assert not (copy / large.name).exists()


@pytest.mark.parametrize("command", ["push", "pull"])
def test_a_client_goes_on_by_itself_when_the_head_is_back(
    cluster: Cluster, large: Path, tmp_path: Path, command: str
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    folder = data(cluster)
    arguments = ["push", "home", "large.bin", str(large)]
    if command == "pull":
        os.link(large, folder / "large.bin")
        arguments = ["pull", "home", "large.bin", str(target)]
        folder = target
    with stopped_midway(cluster, folder, *arguments) as client:
        cluster.kill("head")
        cluster.ok("up")
        client.send_signal(signal.SIGCONT)
        assert client.wait(120) == 0, client.stderr and client.stderr.read()
    assert digest(folder / "large.bin") == digest(large)


def test_memory_stays_flat_for_two_gigabytes(cluster: Cluster) -> None:
    folder = data(cluster)
    with (folder / "sparse").open("wb") as file:
        file.truncate(2048 * MIB)
    before = peak(cluster)
    arguments = [str(PIT), "pull", "home", "sparse", "-"]
    seen, size = [], 0
    # Its own memory: what the system reports at its end counts that of whoever started it, too.
    with subprocess.Popen(arguments, env=cluster.env, stdout=subprocess.PIPE) as client:
        assert client.stdout
        while size < 2048 * MIB and (block := client.stdout.read(64 * MIB)):
            size += len(block)
            seen.append(peak_of(client.pid))
        assert client.wait(120) == 0
    assert size == 2048 * MIB
    assert max(seen) < 128 * 1024
    assert peak(cluster) - before < 64 * 1024


def peak(cluster: Cluster) -> int:
    """The most memory that the head's processes have used so far, in KiB."""
    pid = cluster.pid("head")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(peak_of(each) for each in (str(pid), *children))


def peak_of(pid: int | str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if "VmHWM" in line)
