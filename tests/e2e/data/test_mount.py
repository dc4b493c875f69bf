"""Data as a local file system: `pit mount`, and other programs that speak WebDAV, for real."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pit_protocol.transport.pinning import pinned_context
from pit_protocol.transport.tunnel import Tunnel
from tests.support.certificates import a_certificate
from tests.support.clusters.lab import Lab, Person
from tests.support.clusters.local import PIT, Cluster, Project, running
from tests.support.mounts import home_on_head, mounted, need_mounts, unsent
from tests.support.requirements import need_programs, need_system_rights

pytestmark = pytest.mark.usefixtures("mounts")


@pytest.fixture(scope="module")
def mounts() -> None:
    need_mounts()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests here: each leaves it running."""
    place = tmp_path_factory.mktemp("data")
    with running(Cluster(place, Project(place))) as cluster:
        yield cluster


def test_a_home_is_read_and_written_and_unmounted_on_ctrl_c(cluster: Cluster, tmp_path: Path) -> None:
    place = tmp_path / "my data"
    with mounted(cluster.env, place, "home"):
        (place / "new folder").mkdir()
        (place / "new folder" / "ümlaut.txt").write_text("hello")
        large = os.urandom(3_000_000)
        (place / "large").write_bytes(large)
        with (place / "large").open("r+b") as file:
            file.seek(1_000_000)
            file.write(b"changed")
        (place / "new folder" / "ümlaut.txt").rename(place / "moved")
    home = home_on_head(cluster)
    assert (home / "moved").read_text() == "hello"
    assert (home / "large").read_bytes() == large[:1_000_000] + b"changed" + large[1_000_007:]
    assert not place.exists()  # it was made for the mount
    assert not unsent(cluster)


def test_what_may_only_be_read_is_mounted_so_and_a_shell_ends_it(cluster: Cluster) -> None:
    number = cluster.run('echo kept >"$KEEP_DIR/file"')
    cluster.wait(number)
    script = "cat keep/file; touch keep/new; exit 7"
    done = subprocess.run(
        [str(PIT), "mount", str(number), "--shell"],
        env={**cluster.env, "SHELL": "/bin/sh"},
        input=script,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (7, "kept\n")
    assert "Read-only file system" in done.stderr and "(read-only)" in done.stderr
    assert str(cluster.home.parent) not in Path("/proc/self/mountinfo").read_text()


def test_what_cannot_be_mounted_is_a_sentence(cluster: Cluster, tmp_path: Path) -> None:
    missing = cluster.pit("mount", "job:99")
    assert missing.code == 1 and "there is no job:99" in missing.err
    (tmp_path / "full" / "x").mkdir(parents=True)
    full = cluster.pit("mount", "home", str(tmp_path / "full"))
    assert full.code == 1 and "is not an empty directory" in full.err
    wrong = cluster.pit("mount", "job:99", PATH=str(PIT.parent))
    assert wrong.code == 1 and "there is no job:99" in wrong.err
    poor = cluster.pit("mount", "home", PATH=str(PIT.parent))
    assert (
        poor.code == 1 and "rclone and fuse3 are not installed here\n`apt install rclone fuse3`" in poor.err
    )


def test_other_programs_read_and_write_by_webdav(cluster: Cluster, tmp_path: Path) -> None:
    url = (cluster.home / "connect.txt").read_text().splitlines()[0]
    token = (cluster.home / "user.token").read_text().strip()
    env = {
        **cluster.env,
        "RCLONE_CONFIG": "",
        "RCLONE_WEBDAV_URL": f"{url}/dav",
        "RCLONE_WEBDAV_VENDOR": "owncloud",
        "RCLONE_WEBDAV_BEARER_TOKEN": token,
    }
    tree = tmp_path / "tree"
    for number in range(40):
        (tree / f"dir {number % 4}").mkdir(parents=True, exist_ok=True)
        (tree / f"dir {number % 4}" / f"file {number}").write_bytes(os.urandom(number * 1000))
    os.utime(tree / "dir 1" / "file 1", (10**9, 10**9))
    for words in (
        ["copy", str(tree), ":webdav:home/tree"],
        ["check", "--download", str(tree), ":webdav:home/tree"],
    ):
        subprocess.run(["rclone", *words], env=env, check=True, capture_output=True, timeout=120)
    assert (home_on_head(cluster) / "tree/dir 1/file 1").stat().st_mtime == 10**9
    again = subprocess.run(
        ["rclone", "copy", "-v", str(tree), ":webdav:home/tree"],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "Transferred:            0 / 0" in again.stderr or "nothing to transfer" in again.stderr
    need_programs("litmus")
    # Not its `props`: what it wants kept there is kept by nobody here.
    tests = {**env, "TESTS": "basic copymove http"}
    told = subprocess.run(
        ["litmus", "-k", f"{url}/dav/home/", "anybody", token],
        env=tests,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0 and told.stdout.count(" 0 failed") == 3, told.stdout
    _with_davfs(f"{url}/dav/", token, tmp_path)
    assert (home_on_head(cluster) / "folder" / "by davfs").read_text() == "hello\n"


def _with_davfs(url: str, token: str, tmp_path: Path) -> None:
    need_programs("mount.davfs")
    need_system_rights()
    place = tmp_path / "davfs"
    place.mkdir()
    # davfs2 gives up its rights, and must still reach its cache.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as cache:
        shutil.chown(cache, group="davfs2")
        Path(cache).chmod(0o775)
        (tmp_path / "secrets").write_text(f"{url} anybody {token}\n")
        (tmp_path / "secrets").chmod(0o600)
        settings = ["cache_dir " + cache, f"secrets {tmp_path}/secrets", "delay_upload 0", "use_locks 1"]
        (tmp_path / "davfs.conf").write_text("\n".join(settings) + "\n")
        options = f"conf={tmp_path}/davfs.conf"
        subprocess.run(["mount.davfs", "-o", options, url, str(place)], check=True, timeout=120)
        try:
            (place / "home" / "folder").mkdir()
            (place / "home" / "by davfs").write_text("hello\n")
            (place / "home" / "by davfs").rename(place / "home" / "folder" / "by davfs")
        finally:
            subprocess.run(["umount", str(place)], check=True, capture_output=True, timeout=120)


def _all_arguments() -> bytes:
    found = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += path.read_bytes()
    return found


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    lab.start_head()
    yield lab
    lab.close()


def test_a_head_is_known_by_its_certificate_and_by_nothing_else(lab: Lab, tmp_path: Path) -> None:
    root = Person(lab, "root")
    root.ok("connect", lab.url, "--pin", lab.pin())
    terminal = root.at_terminal("login", "--user", "root")
    terminal.answer("Setup code", lab.setup_code())
    root.register(terminal)
    assert terminal.end() == 0, terminal.shown
    place = tmp_path / "mnt"
    need_programs("curl")
    with mounted({**root.env, "PWD": str(root.project.path)}, place, "home"):
        (place / "file").write_text("by TLS")
        token = next(iter(re.findall(r"pit_\d+_[\w-]{43}", (root.home / ".pituser.txt").read_text())))
        assert token.encode() not in _all_arguments()
    assert (lab.place / "head/data/home/root/file").read_text() == "by TLS"
    foreign = a_certificate().pem
    with Tunnel(lab.url, pinned_context([foreign])) as tunnel:
        host = tunnel.url.removeprefix("http://")
        asked = subprocess.run(
            ["curl", "--silent", "--show-error", f"http://{host}/api/v1/"],
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert asked.returncode == 52  # nobody answered, for nobody was asked
