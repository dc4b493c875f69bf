"""What tests need that mount something, and the two ways in which a node has the head's files."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pit_protocol.transport import rclone
from tests.support.clusters.local import PIT, Cluster
from tests.support.requirements import lack

BOUND, REMOTE = "bound", "remote"
IN_REMOTE = pytest.mark.parametrize("cluster", [REMOTE], indirect=True)


def need_mounts() -> None:
    """Skip the test where nothing can be mounted; in CI it fails."""
    if missing := rclone.why_unavailable():
        lack(missing)


@contextmanager
def mounting(
    env: dict[str, str], place: Path, entity: str, *, pit: Sequence[str] = (str(PIT),)
) -> Iterator[subprocess.Popen[str]]:
    """`pit mount`, when it has said that it is there; a test that fails does not wait for its end."""
    command = [*pit, "mount", entity, str(place)]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as client:
        try:
            assert client.stderr
            said = client.stderr.readline()
            assert f"{entity} is at {place}" in said, said
            yield client
        except BaseException:
            client.kill()
            raise


@contextmanager
def mounted(env: dict[str, str], place: Path, entity: str) -> Iterator[subprocess.Popen[str]]:
    """`pit mount` in the foreground; it must unmount by itself when it is interrupted."""
    with mounting(env, place, entity) as client:
        try:
            yield client
        finally:
            client.send_signal(signal.SIGINT)
            client.wait(120)
    assert not rclone.is_mounted(place)
    assert client.returncode == 0


def home_on_head(cluster: Cluster) -> Path:
    return cluster.home / "head" / "data" / "home" / str(cluster.json("show", "me")["name"])


def unsent(cluster: Cluster) -> list[Path]:
    """Files that a mount could not send."""
    return [
        path for path in (cluster.home.parent / ".cache" / "pit").glob("mounts/*/vfs/**/*") if path.is_file()
    ]


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
