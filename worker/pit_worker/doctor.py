"""`pit-worker doctor`: whether this machine is fit to be a node, and how to mend what is not."""

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from pathlib import Path

import requests

from pit_protocol import API_PREFIX, rclone
from pit_protocol.beat import Beat
from pit_worker.head import Head, HeadError, Overtaken
from pit_worker.settings import REMOTE, SettingError, Settings
from pit_worker.spool import read_data_root
from pit_worker.transport import CONNECT_S, open_session, read_certificates

CLOCK_S = 5.0  # more than that from the head's clock is worth a word
CLOCK_MOST_S = 60.0
GIB = 1024**3
DISK_LOW_GIB, DISK_LEAST_GIB = 10, 1


class Mark(StrEnum):
    GOOD = "good"
    DOUBTFUL = "doubtful"  # works, but somebody should look
    BAD = "bad"


SIGNS = {Mark.GOOD: "✓", Mark.DOUBTFUL: "!", Mark.BAD: "✗"}


@dataclass(frozen=True)
class Finding:
    """What one check has found; `hint` says how to mend it."""

    check: str
    mark: Mark
    text: str
    hint: str = ""

    def __str__(self) -> str:
        line = f"{SIGNS[self.mark]} {self.check}: {self.text}"
        return f"{line}\n    {self.hint}" if self.hint else line


def check_head(settings: Settings, now: float) -> Iterator[Finding]:
    """Whether the head is reached and takes the node's token, without driving out a worker that runs."""
    try:
        # Of no epoch: a head that knows the token answers that this worker is overtaken.
        Head(settings).beat(Beat(0, "", 0))
    except Overtaken:
        yield Finding("head", Mark.GOOD, f"{settings.url} answers, and takes this node's token")
    except (HeadError, SettingError) as error:
        hint = "is the address right, and the head up? `pit-worker join` writes down both address and token"
        yield Finding("head", Mark.BAD, str(error), hint)
        return
    yield _check_clock(settings, now)


def check_machine(settings: Settings | None) -> Iterator[Finding]:
    """Disks, the data root, and programs."""
    if settings:
        yield check_disk("disk of the spool", settings.spool)
        yield _check_data_root(settings)
    yield _check_mounts(is_needed=settings is not None and settings.data_root == REMOTE)
    yield _check_git()


def check_disk(check: str, path: Path) -> Finding:
    place = next(place for place in (path, *path.parents) if place.exists())
    free_gib = shutil.disk_usage(place).free / GIB
    text = f"{free_gib:.0f} GiB free at {path}"
    if free_gib < DISK_LEAST_GIB:
        return Finding(check, Mark.BAD, text, "free some space: a full disk ends jobs")
    if free_gib < DISK_LOW_GIB:
        return Finding(check, Mark.DOUBTFUL, text, f"less than {DISK_LOW_GIB} GiB fill up soon")
    return Finding(check, Mark.GOOD, text)


def _check_clock(settings: Settings, now: float) -> Finding:
    try:
        with open_session(settings.url, read_certificates(settings.ca_file)) as session:
            answer = session.get(
                settings.url.rstrip("/") + API_PREFIX, timeout=CONNECT_S, allow_redirects=False
            )
        there = parsedate_to_datetime(answer.headers["Date"]).timestamp()
    except (requests.RequestException, KeyError, ValueError):
        return Finding("clock", Mark.DOUBTFUL, "the head does not tell its time", "compare them by hand")
    off_s = abs(now - there)
    text = f"{off_s:.0f} s from the head's"
    if off_s <= CLOCK_S:
        return Finding("clock", Mark.GOOD, text)
    mark = Mark.BAD if off_s > CLOCK_MOST_S else Mark.DOUBTFUL
    return Finding("clock", mark, text, "run an NTP client (chrony, systemd-timesyncd) here and there")


def _check_data_root(settings: Settings) -> Finding:
    if settings.data_root == REMOTE:
        return Finding("data root", Mark.GOOD, "is not here: jobs get their data over the head")
    root = settings.data_root or read_data_root(settings.spool)
    if not root:
        return Finding("data root", Mark.DOUBTFUL, "not known before the worker's first session")
    if Path(root).is_dir():
        return Finding("data root", Mark.GOOD, f"{root} is there")
    hint = f'mount it at the same path as on the head (NFS or the like), or set data_root = "{REMOTE}"'
    return Finding("data root", Mark.BAD, f"{root} is not there", hint)


def _check_mounts(*, is_needed: bool) -> Finding:
    lacking, _, hint = rclone.lack().partition(": ")
    if not lacking:
        return Finding("mounts", Mark.GOOD, "rclone and fuse are there")
    if is_needed:
        return Finding("mounts", Mark.BAD, lacking, f"{hint}; without it no job can run here")
    return Finding("mounts", Mark.DOUBTFUL, lacking, f'{hint}; only data_root = "{REMOTE}" needs it')


def _check_git() -> Finding:
    if not shutil.which("git"):
        return Finding("git", Mark.DOUBTFUL, "is not there", "install it: jobs of this node may want it")
    told = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False).stdout
    return Finding("git", Mark.GOOD, told.strip())
