"""`pit mount` when it is killed, or when its head is."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pit_protocol.transport import rclone
from pit_protocol.transport.tunnel import Tunnel
from tests.support.clusters.local import Cluster, eventually, is_alive
from tests.support.mounts import children, home_on_head, mounted, mounting, need_mounts, unsent
from tests.support.requirements import need_programs


@pytest.fixture(scope="module", autouse=True)
def mounts() -> None:
    need_mounts()


# `pit`, but reads wait only this long for a head that is away.
IMPATIENT = """
import pit.transfer.webdav_mount
pit.transfer.webdav_mount.WAIT_S = 2.0
import pit.__main__
pit.__main__.main()
"""


def kill_head(cluster: Cluster) -> str:
    """Returns its URL when it is gone: gunicorn's other process has the port a moment longer."""
    url = (cluster.home / "connect.txt").read_text().splitlines()[0]
    cluster.kill("head")
    eventually(lambda: _is_refused(url))
    return url


def _is_refused(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), timeout=5).close()
    except ConnectionError as error:
        return isinstance(error, ConnectionRefusedError)
    return False


def test_a_mount_that_is_killed_is_unmounted_and_the_next_one_sends_the_rest(
    cluster: Cluster, tmp_path: Path
) -> None:
    place, large = tmp_path / "mnt", os.urandom(20_000_000)
    with mounting(cluster.env, place, "home") as client:
        rest = children(client.pid)
        # Somebody is inside, so that it cannot be unmounted without more ado.
        with subprocess.Popen(["cat"], cwd=place, stdin=subprocess.PIPE) as inside:
            (place / "left").write_bytes(large)
            client.kill()
            eventually(lambda: not rclone.is_mounted(place))
            eventually(lambda: not any(map(is_alive, rest)))
            inside.terminate()
    assert len(rest) == 2  # rclone, and who watches over it
    assert [path.name for path in unsent(cluster)] == ["left"]
    assert not list((cluster.home.parent / ".cache").rglob("rclone.conf"))  # which has the token
    with mounted(cluster.env, place, "home"):
        pass
    assert (home_on_head(cluster) / "left").read_bytes() == large
    assert not unsent(cluster)


def test_a_mount_without_its_head_fails_soon_ends_on_ctrl_c_and_loses_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    place = tmp_path / "mnt"
    home_on_head(cluster).mkdir(exist_ok=True)  # as the first use of it does
    (home_on_head(cluster) / "there").write_text("here it is")
    with mounting(cluster.env, place, "home", pit=(sys.executable, "-c", IMPATIENT)) as client:
        assert "there" in os.listdir(place)
        kill_head(cluster)
        with pytest.raises(subprocess.CalledProcessError) as failed:
            subprocess.run(["cat", place / "there"], check=True, capture_output=True, timeout=120)
        assert b"Input/output error" in failed.value.stderr
        cluster.ok("up")
        eventually(
            lambda: subprocess.run(["cat", place / "there"], capture_output=True).stdout == b"here it is"
        )
        kill_head(cluster)
        (place / "there").write_text("changed")
        client.send_signal(signal.SIGINT)
        _, said = client.communicate(timeout=120)
    assert client.returncode == 1 and not rclone.is_mounted(place)
    assert "the head does not answer, and has not got 1 changed file yet" in said
    cluster.ok("up")
    with mounted(cluster.env, place, "home"):
        pass
    assert (home_on_head(cluster) / "there").read_text() == "changed"


def test_the_tunnel_waits_for_a_head_that_is_away(cluster: Cluster) -> None:
    need_programs("curl")
    url = kill_head(cluster)
    with Tunnel(url, None, wait_s=60.0) as tunnel:
        asking = subprocess.Popen(
            ["curl", "--silent", f"{tunnel.url}/api/v1/"], stdout=subprocess.PIPE, text=True
        )
        cluster.ok("up")
        answer, _ = asking.communicate(timeout=120)
    assert '"name":"pit"' in answer.replace(" ", "")
    eventually(lambda: cluster.pit("status").code == 0)
