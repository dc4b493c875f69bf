"""Sites on the head, with an agent and pilots that the test plays itself."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from pit_protocol.messages.site import AllocationState, Refusal, SeenAllocation, SiteBeat, Wishes
from pit_protocol.wire import from_json, to_json
from pit_server.context import Head
from tests.support.clusters.head import (
    Caller,
    Person,
    Worker,
    a_submission,
    an_inventory,
    ended,
    running,
    skip_preparation,
)

PENDING, RUNNING, ENDED = AllocationState.PENDING, AllocationState.RUNNING, AllocationState.ENDED


class SiteAgent(Caller):
    begins = True

    def beat(self, *seen: SeenAllocation, **fields: Any) -> Wishes:
        beat = SiteBeat("run-1", self.begins, "lab", allocations=seen, **fields)
        self.begins = False
        return from_json(Wishes, self.ok(self.post("/site/beat", json=to_json(beat))))


@pytest.fixture
def agent(app: Flask, root: Person) -> SiteAgent:
    added = root.ok(root.put("/sites/hpc", kind="slurm", time="4h", shared_account="yes"))
    joined = Caller(app, "", added["join_code"])
    made = SiteAgent(app, "hpc", joined.ok(joined.post("/node/join", json={}))["token"])
    made.beat()
    return made


@pytest.fixture
def submit(head: Head, anna: Person) -> Callable[..., int]:
    def run(request: str = "2:[4:a100]@hpc", **options: Any) -> int:
        number = anna.submit(request=request, **options)
        skip_preparation(head, number)
        head.scheduling()
        return number

    return run


def join(app: Flask, codes: tuple[str, ...], gpus: int = 4) -> list[Worker]:
    pilots = []
    for index, code in enumerate(codes):
        caller = Caller(app, "", code)
        joined = caller.ok(caller.post("/node/join", json={"host": f"n{index}"}))
        pilots.append(Worker(app, joined["node"], joined["token"]))
        pilots[-1].hello(an_inventory(gpus={"A100": gpus}), address=f"n{index}.lab")
    return pilots


def test_a_job_starts_when_all_pilots_have_joined(
    app: Flask, head: Head, anna: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    number = submit()
    (wish,) = agent.beat().wishes
    assert (wish.nodes, wish.gpus[0].kind, wish.gpus[0].count, wish.time_s) == (2, "a100", 4, 14400.0)
    assert wish.name.endswith(f"-{number}-1")
    agent.beat(SeenAllocation(wish.name, "4711", PENDING, "PENDING", "Priority"))
    head.scheduling()
    reason = anna.ok(anna.get(f"/jobs/{number}/why"))["queued"]["reason"]
    assert reason == "asked hpc for 2 × 4 a100 for 4h as 4711; Slurm says Priority"
    agent.beat(SeenAllocation(wish.name, "4711", RUNNING, "RUNNING", ends_at=2e9, hosts="n[0-1]"))
    (first,) = join(app, wish.codes[:1])
    head.scheduling()
    assert anna.job(number)["state"] == "waiting"
    (second,) = join(app, wish.codes[1:])
    head.scheduling()
    assert anna.job(number)["state"] == "starting"
    assert [len(pilot.orders()) for pilot in (first, second)] == [1, 1]
    names = [(node["name"], node["host"], node["ends_at"]) for node in anna.ok(anna.get("/nodes"))["nodes"]]
    assert names == [("hpc/4711.0", "n0", 2e9), ("hpc/4711.1", "n0", 2e9)]


def test_each_answer_has_codes_of_its_own_until_the_allocation_was_seen(
    app: Flask, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    submit("[]@hpc")
    (old,), (new,) = agent.beat().wishes, agent.beat().wishes
    caller = Caller(app, "", old.codes[0])
    assert caller.post("/node/join", json={}).status_code == 401
    (wish,) = agent.beat(SeenAllocation(new.name, "17", PENDING)).wishes
    assert wish.codes == ()
    join(app, new.codes)


def test_the_end_of_an_allocation_loses_its_processes_with_the_sites_word(
    app: Flask, head: Head, anna: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    number = submit("[]@hpc")
    (wish,) = agent.beat().wishes
    seen = SeenAllocation(wish.name, "17", RUNNING)
    agent.beat(seen)
    (pilot,) = join(app, wish.codes)
    head.scheduling()
    (process,) = pilot.orders()
    pilot.beat(running(process))
    agent.beat(SeenAllocation(wish.name, "17", ENDED, "PREEMPTED"))
    job = anna.job(number)
    assert (job["state"], job["outcome"]) == ("ended", "lost")
    assert job["reason"] == "worker 0 is lost: hpc ended its allocation 17: PREEMPTED"
    assert pilot.post("/node/beat", data=b"").status_code == 401
    assert anna.ok(anna.get("/nodes"))["nodes"] == []


def test_the_job_ends_and_its_allocation_is_wanted_no_more(
    app: Flask, head: Head, anna: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    number = submit("[]@hpc")
    (wish,) = agent.beat().wishes
    agent.beat(SeenAllocation(wish.name, "17", RUNNING))
    (pilot,) = join(app, wish.codes)
    head.scheduling()
    (process,) = pilot.orders()
    pilot.beat(running(process))
    pilot.beat(ended(process))
    assert anna.job(number)["outcome"] == "succeeded"
    agent.beat(SeenAllocation(wish.name, "17", ENDED, "COMPLETED"))
    assert agent.beat().wishes == ()
    assert anna.job(number)["outcome"] == "succeeded"


def test_the_next_job_waits_for_what_the_site_says_of_a_kept_allocation(
    app: Flask, head: Head, anna: Person, root: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    root.ok(root.patch("/sites/hpc", keep="10m"))
    first = submit("[]@hpc")
    (wish,) = agent.beat().wishes
    before = agent.beat(SeenAllocation(wish.name, "17", PENDING, "PENDING")).revision
    (pilot,) = join(app, wish.codes)
    head.scheduling()
    (process,) = pilot.orders()
    pilot.beat(running(process))
    pilot.beat(ended(process))
    assert anna.job(first)["outcome"] == "succeeded"
    second = submit("[]@hpc")
    # The agent is to look at once: the pilot was faster.
    answer = agent.beat(SeenAllocation(wish.name, "17", PENDING, "PENDING"))
    assert answer.revision > before
    assert [each.name for each in answer.wishes] == [wish.name]
    agent.beat(SeenAllocation(wish.name, "17", RUNNING, "RUNNING", ends_at=4e9))
    head.scheduling()
    head.scheduling()
    assert anna.job(second)["state"] == "starting"
    assert [each.name for each in agent.beat(SeenAllocation(wish.name, "17", RUNNING)).wishes] == [wish.name]


def test_a_stopped_job_is_asked_for_no_longer(
    head: Head, anna: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    number = submit("[]@hpc")
    (wish,) = agent.beat().wishes
    anna.stop(number)
    head.scheduling()
    assert agent.beat(SeenAllocation(wish.name, "17", PENDING)).wishes == ()


def test_three_failures_end_the_job_and_pause_the_site(
    head: Head, anna: Person, root: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    number = submit("[]@hpc")
    names = []
    for _ in range(3):
        (wish,) = agent.beat().wishes
        names.append(wish.name.rpartition("-")[2])
        agent.beat(SeenAllocation(wish.name, "17", ENDED, "FAILED", output="no python here\n"))
        head.scheduling()
    assert names == ["1", "1.2", "1.3"]
    job = anna.job(number)
    assert job["reason"] == "in 3 allocations of hpc not all pilots joined: no python here"
    shown = anna.ok(anna.get("/sites/hpc"))
    assert shown["state"] == "paused"
    assert "no python here" in shown["trouble"]
    submit("[]@hpc")
    assert agent.beat().wishes == ()
    root.ok(root.patch("/sites/hpc", state="online"))
    head.scheduling()
    assert len(agent.beat().wishes) == 1


def test_a_refused_job_ends_with_the_sites_words(
    head: Head, anna: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    number = submit("[99:cpu]@hpc")
    (wish,) = agent.beat().wishes
    agent.beat(refusals=(Refusal(wish.name, "Requested node configuration is not available"),))
    head.scheduling()
    assert anna.job(number)["reason"] == (
        "hpc refuses 99 cores for 4h: Requested node configuration is not available"
    )


def test_an_older_agent_is_told_to_exit(agent: SiteAgent) -> None:
    late = SiteBeat("run-0", allocations=())
    answer = agent.post("/site/beat", json=to_json(late))
    assert (answer.status_code, answer.json["code"]) == (409, "stale_epoch")


def test_who_may_use_a_site(
    root: Person, anna: Person, a_user: Callable[..., Person], a_group: Callable[..., None], agent: SiteAgent
) -> None:
    root.ok(root.patch("/sites/hpc", shared_account="no"))
    answer = anna.post("/jobs", json=_submission())
    assert (answer.status_code, answer.json["code"]) == (403, "not_allowed")
    assert "shared_account=yes" in answer.json["message"]
    a_group("ml", "anna")
    root.ok(root.patch("/sites/hpc", groups="ml"))
    assert anna.post("/jobs", json=_submission()).status_code == 201
    berta = a_user("berta")
    assert "members of ml" in berta.post("/jobs", json=_submission()).json["message"]


def test_a_job_is_at_one_site_as_a_whole(anna: Person, agent: SiteAgent) -> None:
    answer = anna.post("/jobs", json=_submission("[]@hpc,[]"))
    assert (answer.status_code, answer.json["code"]) == (422, "bad_place")


def test_nodes_and_sites_have_different_names_and_a_site_in_use_stays(
    root: Person, agent: SiteAgent, submit: Callable[..., int]
) -> None:
    assert root.put("/nodes/hpc").json["code"] == "exists"
    submit("[]@hpc")
    assert root.delete("/sites/hpc").json["code"] == "in_use"


def _submission(request: str = "[]@hpc") -> dict[str, Any]:
    return a_submission(request=request)
