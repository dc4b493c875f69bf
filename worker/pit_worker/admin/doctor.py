"""`pit-worker doctor`: whether this machine is fit to be a node, and how to fix what is not."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path

import requests

from pit_protocol import API_PREFIX
from pit_protocol.messages.beat import Beat
from pit_protocol.transport import rclone
from pit_worker.head.client import Head, HeadError, Overtaken
from pit_worker.head.tls import CONNECT_S, open_session, read_certificates
from pit_worker.runtime import accounts
from pit_worker.settings import REMOTE, SettingError, Settings
from pit_worker.spool.spool import read_data_root

CLOCK_S = 5.0  # more difference from the head's clock is worth a warning
CLOCK_MOST_S = 60.0
GIB = 1024**3
DISK_LOW_GIB, DISK_LEAST_GIB = 10, 1


class Mark(StrEnum):
    GOOD = "good"
    DOUBTFUL = "doubtful"  # works, but someone should look at it
    BAD = "bad"


SIGNS = {Mark.GOOD: "✓", Mark.DOUBTFUL: "!", Mark.BAD: "✗"}


@dataclass(frozen=True)
class Finding:
    """What one check has found; `hint` says how to fix it."""

    check: str
    mark: Mark
    text: str
    hint: str = ""

    def __str__(self) -> str:
        line = f"{SIGNS[self.mark]} {self.check}: {self.text}"
        return f"{line}\n    {self.hint}" if self.hint else line


def check_head(settings: Settings, now: float) -> Iterator[Finding]:
    """Whether the head answers and accepts the node's token, without displacing a running worker."""
    try:
        # With no valid epoch: a head that knows the token answers that another worker has taken over.
        Head(settings).beat(Beat(0, "", 0))
    except Overtaken:
        yield Finding("head", Mark.GOOD, f"{settings.url} answers, and accepts this node's token")
    except (HeadError, SettingError) as error:
        hint = "is the address right, and the head up? `pit-worker join` stores both address and token"
        yield Finding("head", Mark.BAD, str(error), hint)
        return
    yield _check_clock(settings, now)


def check_machine(settings: Settings | None) -> Iterator[Finding]:
    """Disks, the data root, and programs."""
    if settings:
        yield _check_accounts(settings)
        yield check_disk("disk of the spool", settings.spool)
        yield _check_data_root(settings)
    yield _check_mounts(is_needed=settings is not None and settings.data_root == REMOTE)
    yield _check_git()


def _check_accounts(settings: Settings) -> Finding:
    text = accounts.describe(settings)
    if not accounts.why_shared(settings):
        return Finding("accounts", Mark.GOOD, text)
    return Finding("accounts", Mark.DOUBTFUL, text, accounts.OBJECTION)


def check_disk(check: str, path: Path) -> Finding:
    place = next(place for place in (path, *path.parents) if place.exists())
    free_gib = shutil.disk_usage(place).free / GIB
    text = f"{free_gib:.0f} GiB free at {path}"
    if free_gib < DISK_LEAST_GIB:
        return Finding(check, Mark.BAD, text, "free some space: a full disk makes jobs fail")
    if free_gib < DISK_LOW_GIB:
        return Finding(check, Mark.DOUBTFUL, text, f"less than {DISK_LOW_GIB} GiB fill up quickly")
    return Finding(check, Mark.GOOD, text)


def _check_clock(settings: Settings, now: float) -> Finding:
    try:
        with open_session(settings.url, read_certificates(settings.ca_file)) as session:
            answer = session.get(
                settings.url.rstrip("/") + API_PREFIX, timeout=CONNECT_S, allow_redirects=False
            )
        there = parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (requests.RequestException, KeyError, ValueError):
        return Finding("clock", Mark.DOUBTFUL, "the head does not send its time", "compare them by hand")
    off_s = abs(now - there)
    text = f"{off_s:.0f} s from the head's"
    if off_s <= CLOCK_S:
        return Finding("clock", Mark.GOOD, text)
    mark = Mark.BAD if off_s > CLOCK_MOST_S else Mark.DOUBTFUL
    return Finding("clock", mark, text, "run an NTP client (chrony, systemd-timesyncd) on both machines")


def _check_data_root(settings: Settings) -> Finding:
    if settings.data_root == REMOTE:
        return Finding("data root", Mark.GOOD, "not on this node: jobs get their data from the head")
    root = settings.data_root or read_data_root(settings.spool)
    if not root:
        return Finding("data root", Mark.DOUBTFUL, "not known before the worker's first session")
    if Path(root).is_dir():
        return Finding("data root", Mark.GOOD, f"{root} exists")
    hint = f'mount it at the same path as on the head (NFS or the like), or set data_root = "{REMOTE}"'
    return Finding("data root", Mark.BAD, f"{root} does not exist", hint)


def _check_mounts(*, is_needed: bool) -> Finding:
    missing, _, hint = rclone.why_unavailable().partition(": ")
    if not missing:
        return Finding("mounts", Mark.GOOD, "rclone and fuse are installed")
    if is_needed:
        return Finding("mounts", Mark.BAD, missing, f"{hint}; without it no job can run here")
    return Finding("mounts", Mark.DOUBTFUL, missing, f'{hint}; only data_root = "{REMOTE}" needs it')


def _check_git() -> Finding:
    if not shutil.which("git"):
        return Finding("git", Mark.DOUBTFUL, "not installed", "install it: jobs of this node may need it")
    version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False).stdout
    return Finding("git", Mark.GOOD, version.strip())
