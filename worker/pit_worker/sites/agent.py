"""The agent of a site: it lists, asks for and ends allocations, as the head wants. It remembers nothing.

It may be killed at any line: every allocation has a name that follows from its job, and is looked for before
it is asked for.
"""

import json
import logging
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from pit_protocol.atomic_file import write_atomic
from pit_protocol.backoff import Backoff
from pit_protocol.messages.site import (
    MAX_OUTPUT,
    AllocationState,
    Refusal,
    SeenAllocation,
    SiteBeat,
    Wish,
    Wishes,
)
from pit_protocol.system.failpoints import Failpoints
from pit_worker.head.client import Head, HeadError, Overtaken
from pit_worker.runtime import accounts
from pit_worker.settings import Settings
from pit_worker.sites.base import SiteBackend, SiteError, SiteRefusal
from pit_worker.sites.pilot_settings import FILE_NAME, PilotSettings
from pit_worker.sites.slurm import OUTPUT

ACTIVE_S = 1.0  # between two looks at the site while allocations of ours run
PENDING_S = 4.0  # the same while they only wait: pilots tell themselves that theirs has begun
TROUBLE_S = 5.0  # the same while it does not answer

log = logging.getLogger(__name__)


class Agent:
    def __init__(
        self,
        settings: Settings,
        backend: SiteBackend,
        head: Head,
        failpoints: Failpoints,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._backend = backend
        self._head = head
        self._failpoints = failpoints
        self._sleep = sleep
        self._session = secrets.token_hex(16)
        self._wishes: Wishes | None = None
        self._refusals: dict[str, str] = {}
        self._trouble = ""

    def run(self) -> int:
        """Work until another agent takes over; the exit code."""
        backoff, said = Backoff(), ""
        while True:
            try:
                self.turn()
            except Overtaken as error:
                log.error("%s", error)
                return 1
            except HeadError as error:
                if said != str(error):
                    said = str(error)
                    log.warning("%s; trying again", said)
                self._sleep(backoff.delay_s())
            else:
                backoff.reset()
                said = ""

    def turn(self) -> None:
        """Look at the site, tell the head, and do what it wants."""
        seen = self._look()
        before = self._wishes
        wishes = self._wishes = self._head.site_beat(
            SiteBeat(
                session=self._session,
                begins=before is None,
                account=accounts.own_name(),
                seen=before.revision if before else 0,
                wait_s=self._wait_s(seen),
                allocations=None if seen is None else tuple(seen),
                refusals=tuple(Refusal(name, text) for name, text in self._refusals.items()),
                trouble=self._trouble,
            )
        )
        self._refusals.clear()
        if before is None:
            return  # only now it knows which allocations are its own: look again
        if seen is None:
            self._sleep(TROUBLE_S)
            return
        self._fulfil(wishes, seen)

    def _wait_s(self, seen: list[SeenAllocation] | None) -> float:
        if seen is None or self._refusals or self._wishes is None:
            return 0.0
        states = {each.state for each in seen}
        if AllocationState.RUNNING in states or self._trouble:
            return ACTIVE_S
        return PENDING_S if AllocationState.PENDING in states else self._wishes.hold_s

    def _look(self) -> list[SeenAllocation] | None:
        """The allocations of this cluster; None if the site does not say."""
        if self._wishes is None:
            return None  # before the first answer, it does not know which are its own
        try:
            found = self._backend.list_allocations(f"pit-{self._wishes.cluster}-")
        except SiteError as error:
            self._note_trouble(str(error))
            return None
        return self._without_twins([self._with_output(each) for each in found])

    def _without_twins(self, found: list[SeenAllocation]) -> list[SeenAllocation]:
        """Of several with one name the one that runs, else the first; the others are ended."""
        order = [AllocationState.RUNNING, AllocationState.PENDING, AllocationState.ENDED]
        chosen: dict[str, SeenAllocation] = {}
        for each in sorted(found, key=lambda each: (order.index(each.state), len(each.id), each.id)):
            if chosen.setdefault(each.name, each) is not each and each.state is not AllocationState.ENDED:
                self._cancel(each)
        return list(chosen.values())

    def _with_output(self, seen: SeenAllocation) -> SeenAllocation:
        if seen.state is not AllocationState.ENDED:
            return seen
        try:
            text = (self._folder(seen.name) / OUTPUT).read_bytes()[-MAX_OUTPUT:].decode(errors="replace")
        except OSError:
            return seen
        return SeenAllocation(
            seen.name, seen.id, seen.state, seen.word, seen.reason, None, None, seen.hosts, text
        )

    def _fulfil(self, wishes: Wishes, seen: list[SeenAllocation]) -> None:
        there = {each.name for each in seen}
        wanted = {wish.name for wish in wishes.wishes}
        self._trouble = ""
        new = [wish for wish in wishes.wishes if wish.name not in there and wish.codes]
        if new:
            # The beat may have been held for long: look once more before asking.
            there |= {each.name for each in self._look() or ()}
        for wish in new:
            if wish.name not in there and not self._trouble:
                self._ask(wish)
        for each in seen:
            if each.name not in wanted and each.state is not AllocationState.ENDED:
                self._cancel(each)
        self._remove_folders(wanted | there, f"pit-{wishes.cluster}-")

    def _ask(self, wish: Wish) -> None:
        folder = self._folder(wish.name)
        try:
            self._write_settings(wish, folder)
            self._failpoints.reach("before-submit")
            self._backend.submit(wish, folder)
            self._failpoints.reach("after-submit")
            log.info("asked for %s", wish.name)
        except SiteRefusal as error:
            log.warning("%s is refused: %s", wish.name, error)
            self._refusals[wish.name] = str(error)
        except (SiteError, OSError) as error:
            self._note_trouble(str(error))

    def _cancel(self, allocation: SeenAllocation) -> None:
        try:
            self._backend.cancel(allocation)
            log.info("ended %s (%s)", allocation.name, allocation.id)
        except SiteError as error:
            self._note_trouble(str(error))

    def _write_settings(self, wish: Wish, folder: Path) -> None:
        """What the pilots need, in a file that only this account can read: it has their join codes."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificate = Path(self._settings.ca_file).read_text() if self._settings.ca_file else ""
        chosen = PilotSettings(
            site=self._wishes.site if self._wishes else "",
            url=self._settings.url,
            certificate=certificate,
            data_root=self._settings.data_root,
            search_path=self._settings.search_path,
            keep_s=wish.keep_s,
            time_s=wish.time_s,
            notice_s=wish.notice_s,
            codes=wish.codes,
        )
        write_atomic(folder / FILE_NAME, json.dumps(chosen.to_json()), sync=True, mode=0o600)

    def _remove_folders(self, kept: set[str], prefix: str) -> None:
        for folder in self._settings.spool.glob(f"{prefix}*"):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, name: str) -> Path:
        return self._settings.spool / name

    def _note_trouble(self, text: str) -> None:
        if text != self._trouble:
            log.warning("%s", text)
        self._trouble = text
