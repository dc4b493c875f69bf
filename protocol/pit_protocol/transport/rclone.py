"""Running rclone, which mounts the head's WebDAV; no secret is on its command line."""

import base64
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

REMOTE = "pit"  # rclone's name for the head
APPEAR_S = 30.0
LOOK_S = 0.05
ANSWER_S = 10.0
WRITE_BACK = "1s"  # after a file was closed
FRESH = "5s"  # how long a listing is cached
FUSE_DEVICE = Path("/dev/fuse")
FUSERMOUNT = ("fusermount3", "fusermount")


class MountError(Exception):
    """A mount or unmount that failed; the text is for a person."""


def why_unavailable() -> str:
    """What this machine is missing for mounts, in words; empty if nothing."""
    missing = [] if shutil.which("rclone") else ["rclone"]
    if not any(map(shutil.which, FUSERMOUNT)):
        missing.append("fuse3")
    if missing:
        verb, names = "is" if len(missing) == 1 else "are", " ".join(missing)
        return f"{' and '.join(missing)} {verb} not installed here: `apt install {names}`, or the like"
    if not FUSE_DEVICE.exists():
        return f"there is no {FUSE_DEVICE} on this machine: `modprobe fuse`"
    if not os.access(FUSE_DEVICE, os.R_OK | os.W_OK):
        return f"this account may not open {FUSE_DEVICE}: `chmod 666 {FUSE_DEVICE}` as root, or a udev rule"
    return ""


@dataclass(frozen=True)
class MountSpec:
    """What is mounted where, and who owns its files."""

    url: str  # of the head's WebDAV
    path: str  # below it
    place: Path
    cache: Path
    read_only: bool = False
    owner: tuple[int, int] | None = None  # uid and gid; None: the user who mounts it
    options: tuple[str, ...] = ()
    config: Path | None = None  # a file for rclone's secrets; None: they are in its environment


@dataclass(frozen=True)
class Control:
    """The remote control of a running rclone; the caller stores it to find rclone again."""

    port: int
    password: str = field(repr=False, default="")


def start(spec: MountSpec, token: str, log: Path) -> tuple[subprocess.Popen[bytes], Control]:
    """Start a mount without waiting for it. It has a session of its own and outlives its parent."""
    control = Control(_free_port(), secrets.token_urlsafe(24))
    with log.open("ab") as record:
        child = subprocess.Popen(
            _arguments(spec, control),
            env={**os.environ, **_secrets(spec, token, control)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=record,
            stderr=record,
            start_new_session=True,
        )
    return child, control


def await_mounted(
    spec: MountSpec, child: subprocess.Popen[bytes], log: Path, within_s: float = APPEAR_S
) -> None:
    """Wait until it is mounted; raises MountError with rclone's last log line otherwise."""
    deadline = time.monotonic() + within_s
    while not is_mounted(spec.place):
        if child.poll() is not None:
            raise MountError(f"rclone did not mount {spec.path or 'the files'}: {last_log_line(log)}")
        if time.monotonic() > deadline:
            child.kill()
            raise MountError(
                f"rclone did not mount {spec.path or 'the files'} in {within_s:.0f} s: {last_log_line(log)}"
            )
        time.sleep(LOOK_S)


def is_mounted(place: Path) -> bool:
    """Whether something is mounted there, working or not; asks the kernel, not the mount."""
    wanted = os.fsencode(place.absolute())
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        if line.split(b" ")[4].decode("unicode_escape").encode("latin-1") == wanted:
            return True
    return False


def pending(control: Control) -> int:
    """How many files are not on the head yet; raises MountError if rclone does not answer."""
    word = base64.b64encode(f"{REMOTE}:{control.password}".encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{control.port}/vfs/stats",
        b"{}",
        {"Authorization": f"Basic {word}", "Content-Type": "application/json"},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=ANSWER_S) as answer:
            cache = json.loads(answer.read()).get("diskCache", {})
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise MountError(f"rclone does not answer: {error}") from error
    return int(cache.get("uploadsQueued", 0)) + int(cache.get("uploadsInProgress", 0))


def unmount(place: Path, child: subprocess.Popen[bytes] | None = None, within_s: float = 5.0) -> None:
    """Unmount: first politely, then lazily, which takes the files away from programs that still use them."""
    if child and child.poll() is None:
        child.send_signal(signal.SIGINT)
    deadline = time.monotonic() + within_s
    tries = 0
    while is_mounted(place):
        if time.monotonic() > deadline:
            raise MountError(f"{place} cannot be unmounted; `fusermount3 -uz {place}` may help")
        if child is None or child.poll() is not None or time.monotonic() > deadline - within_s / 2:
            _fusermount(place, lazily=tries > 0)
            tries += 1
        time.sleep(LOOK_S)
    if child and child.poll() is None:
        try:
            child.wait(within_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def last_log_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:300] if lines else "it logged nothing"


def _arguments(spec: MountSpec, control: Control) -> list[str]:
    words = [
        "rclone", "mount", f"{REMOTE}:{spec.path}", str(spec.place),
        "--cache-dir", str(spec.cache),
        "--vfs-cache-mode", "full",
        "--vfs-write-back", WRITE_BACK,
        "--dir-cache-time", FRESH,
        "--attr-timeout", "1s",
        "--file-perms", "0700",  # WebDAV has no executable bit
        "--dir-perms", "0700",
        "--use-mmap",
        "--rc", "--rc-addr", f"127.0.0.1:{control.port}",
        "--log-level", "NOTICE",
    ]  # fmt: skip
    if spec.read_only:
        words.append("--read-only")
    if spec.owner:
        words += ["--uid", str(spec.owner[0]), "--gid", str(spec.owner[1]), "--allow-other"]
    return [*words, *spec.options]


def _secrets(spec: MountSpec, token: str, control: Control) -> Mapping[str, str]:
    """Other users of this machine can read arguments, but not the environment of a process.

    With a file, the cache has the same name for every token, so the next rclone sends what is left.
    """
    told = {
        "type": "webdav",
        "url": spec.url,
        "vendor": "owncloud",  # with this vendor rclone sets file times
        "bearer_token": token,
    }
    common = {"RCLONE_RC_USER": REMOTE, "RCLONE_RC_PASS": control.password, "NO_PROXY": "127.0.0.1"}
    if spec.config is None:
        by_name = {f"RCLONE_CONFIG_{REMOTE}_{name}".upper(): value for name, value in told.items()}
        return {**common, **by_name, "RCLONE_CONFIG": ""}  # not the user's own
    with open(os.open(spec.config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"[{REMOTE}]\n" + "".join(f"{name} = {value}\n" for name, value in told.items()))
    return {**common, "RCLONE_CONFIG": str(spec.config)}


def fusermount() -> str:
    """The program that unmounts without root."""
    return next(filter(None, map(shutil.which, FUSERMOUNT)), FUSERMOUNT[0])


def _fusermount(place: Path, *, lazily: bool) -> None:
    words = [fusermount(), "-u", *(["-z"] if lazily else []), str(place)]
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=ANSWER_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
