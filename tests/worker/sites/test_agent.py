"""The agent: it looks before it asks, ends what nobody wants, and does nothing while its site is silent."""

import json
import stat
from pathlib import Path

import pytest

from pit_protocol.messages.site import AllocationState, SeenAllocation, SiteBeat, Wish, Wishes
from pit_protocol.system.failpoints import Failpoints
from pit_worker.settings import Settings
from pit_worker.sites.agent import Agent
from pit_worker.sites.base import SiteError, SiteRefusal

PENDING, RUNNING = AllocationState.PENDING, AllocationState.RUNNING


class FakeSite:
    """A site that has what it was asked for, at once."""

    def __init__(self) -> None:
        self.there: list[SeenAllocation] = []
        self.cancelled: list[str] = []
        self.error: Exception | None = None
        self.refusal = ""

    def list_allocations(self, prefix: str) -> list[SeenAllocation]:
        if self.error:
            raise self.error
        return [each for each in self.there if each.name.startswith(prefix)]

    def submit(self, wish: Wish, folder: Path) -> None:
        if self.refusal:
            raise SiteRefusal(self.refusal)
        self.there.append(SeenAllocation(wish.name, str(len(self.there) + 1), PENDING))

    def cancel(self, allocation: SeenAllocation) -> None:
        self.cancelled.append(allocation.id)
        self.there.remove(allocation)


class FakeHead:
    def __init__(self) -> None:
        self.wishes: tuple[Wish, ...] = ()
        self.beats: list[SiteBeat] = []

    def site_beat(self, beat: SiteBeat) -> Wishes:
        self.beats.append(beat)
        return Wishes("hpc", "c", 1, self.wishes)


@pytest.fixture
def site() -> FakeSite:
    return FakeSite()


@pytest.fixture
def head() -> FakeHead:
    return FakeHead()


@pytest.fixture
def agent(tmp_path: Path, site: FakeSite, head: FakeHead) -> Agent:
    settings = Settings("http://127.0.0.1:1", tmp_path / "token", tmp_path / "allocations")
    made = Agent(settings, site, head, Failpoints(""), sleep=lambda _: None)  # type: ignore[arg-type]
    made.turn()  # says hello
    return made


def a_wish(name: str = "pit-c-7-1", codes: tuple[str, ...] = ("code-1",)) -> Wish:
    return Wish(name, 1, 1, None, (), 3600.0, 25.0, codes=codes)


def test_an_allocation_is_asked_for_once_and_its_codes_are_private(
    agent: Agent, site: FakeSite, head: FakeHead, tmp_path: Path
) -> None:
    head.wishes = (a_wish(),)
    agent.turn()
    file = tmp_path / "allocations/pit-c-7-1/pilot.json"
    assert json.loads(file.read_text())["codes"] == ["code-1"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    agent.turn()
    assert [each.name for each in site.there] == ["pit-c-7-1"]
    assert head.beats[-1].allocations == tuple(site.there)


def test_the_first_beat_says_nothing_of_allocations_that_it_has_not_looked_for(
    head: FakeHead, agent: Agent
) -> None:
    assert (head.beats[0].begins, head.beats[0].allocations) == (True, None)


def test_what_another_run_of_the_agent_asked_for_meanwhile_is_found(
    agent: Agent, site: FakeSite, head: FakeHead
) -> None:
    def beat(beat: SiteBeat) -> Wishes:
        site.there.append(SeenAllocation("pit-c-7-1", "99", PENDING))
        return Wishes("hpc", "c", 1, (a_wish(),))

    head.site_beat = beat  # type: ignore[method-assign]
    agent.turn()
    assert [each.id for each in site.there] == ["99"]


def test_what_nobody_wants_is_ended_but_not_what_belongs_to_others(agent: Agent, site: FakeSite) -> None:
    site.there = [SeenAllocation("pit-c-7-1", "1", RUNNING), SeenAllocation("pit-other-7-1", "2", RUNNING)]
    agent.turn()
    assert site.cancelled == ["1"]


def test_of_two_with_one_name_the_one_that_waits_is_ended(
    agent: Agent, site: FakeSite, head: FakeHead
) -> None:
    head.wishes = (a_wish(codes=()),)
    site.there = [SeenAllocation("pit-c-7-1", "9", PENDING), SeenAllocation("pit-c-7-1", "10", RUNNING)]
    agent.turn()
    assert site.cancelled == ["9"]
    assert head.beats[-1].allocations == (SeenAllocation("pit-c-7-1", "10", RUNNING),)


def test_while_the_site_is_silent_nothing_is_asked_for_and_nothing_is_ended(
    agent: Agent, site: FakeSite, head: FakeHead
) -> None:
    head.wishes = (a_wish(),)
    site.error = SiteError("Unable to contact slurm controller")
    agent.turn()
    assert site.there == []
    assert (head.beats[-1].allocations, head.beats[-1].trouble) == (
        None,
        "Unable to contact slurm controller",
    )
    site.error = None
    agent.turn()
    assert [each.name for each in site.there] == ["pit-c-7-1"]


def test_a_refusal_is_told_with_the_sites_words(agent: Agent, site: FakeSite, head: FakeHead) -> None:
    head.wishes, site.refusal = (a_wish(),), "no such partition"
    agent.turn()
    head.wishes = ()
    agent.turn()
    (refusal,) = head.beats[-1].refusals
    assert (refusal.name, refusal.text) == ("pit-c-7-1", "no such partition")
