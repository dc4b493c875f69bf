"""What holds for every plan, whatever the queue and the nodes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from unittest.mock import patch

from hypothesis import given as assume_given
from hypothesis import settings
from hypothesis import strategies as st

from pit_grammar import parse
from pit_server.scheduler import memory as memories
from pit_server.scheduler.capacity import Held, NodeView, Share
from pit_server.scheduler.order import Usage, Waiting
from pit_server.scheduler.placement import ProcessPlacement
from pit_server.scheduler.plan import Plan, plan
from tests.support.scheduling import a_job, a_view, given, numbers, running

needs = st.sampled_from(
    [
        "",
        "a100",
        "2:a100",
        "1-3:a100",
        "h100",
        "gpu",
        "1-2:gpu",
        "a100,gpu",
        "2:cpu",
        "0.5:cpu,mem",
        "4:mem,h100",
    ]
)
places = st.sampled_from(["", "", "", "@n0", "@n1", "@rack=r1"])
counts = st.sampled_from(["", "", "2:", "1-3:", "4:"])
groups = st.builds(lambda count, need, place: f"{count}[{need}]{place}", counts, needs, places)
requests = st.lists(groups, min_size=1, max_size=3).map(",".join)
clusters = st.lists(
    st.builds(
        lambda slots, cpu, mem, a100, h100, labels: (slots, cpu, mem, a100, h100, labels),
        *(st.integers(0, 6) for _ in range(5)),
        st.sampled_from(["", "rack=r1"]),
    ),
    max_size=4,
).map(
    lambda rows: [
        a_view(f"n{i}", slots=s, cpu=c, mem=m, a100=a, h100=h, labels=text)
        for i, (s, c, m, a, h, text) in enumerate(rows)
    ]
)
TIMES = st.sampled_from([60.0, 600.0, 3600.0])


def _with_jobs(view: NodeView, ends: Sequence[float]) -> NodeView:
    """The node while jobs hold one a100 or one core each, as far as there are any."""
    for number, end in enumerate(ends, 1000):
        if view.slots > 0 and view.units.get("a100"):
            view = running(view, number, end, a100=1)
        elif view.slots > 0 and view.cpu_milli >= 1000:
            view = running(view, number, end, cpu=1)
    return view


busy_clusters = st.tuples(
    clusters, st.lists(st.lists(st.floats(1, 5000), max_size=4), min_size=4, max_size=4)
).map(lambda pair: [_with_jobs(view, ends) for view, ends in zip(*pair, strict=False)])
queues = st.lists(st.tuples(requests, TIMES), max_size=7).map(
    lambda rows: [a_job(number, text, time=time) for number, (text, time) in enumerate(rows, 1)]
)


@settings(max_examples=300, deadline=None)
@assume_given(queues, busy_clusters)
def test_every_job_starts_whole_or_has_a_reason(queue: list[Waiting], views: list[NodeView]) -> None:
    made = plan(given(queue, *views, idle=views))
    assert sorted([*numbers(made), *made.reasons]) == [job.number for job in queue]
    assert all(reason.render() for reason in made.reasons.values())
    assert not made.reservations.keys() & set(numbers(made))
    _check_nothing_twice(made, views)
    jobs = {job.number: job for job in queue}
    for job in made.placements:
        text = str(jobs[job.number].shape.request)
        _check_whole(text, job.processes, {view.id: view for view in views})


@settings(max_examples=300, deadline=None)
@assume_given(queues, busy_clusters)
def test_reservations_hold_if_all_jobs_end_by_their_limits(
    queue: list[Waiting], views: list[NodeView]
) -> None:
    made = plan(given(queue, *views))
    jobs = {job.number: job for job in queue}
    starts = {job.number: (0.0, job.processes) for job in made.placements}
    starts |= {number: (found.start, found.processes) for number, found in made.reservations.items()}
    for at in {start for start, _ in starts.values()}:
        for view in views:
            _check_room(view, at, starts, jobs)


@settings(max_examples=200, deadline=None)
@assume_given(queues, busy_clusters)
def test_no_job_delays_the_reservation_of_one_ahead(queue: list[Waiting], views: list[NodeView]) -> None:
    made = plan(given(queue, *views))
    for count in range(1, len(queue)):
        ahead = plan(given(queue[:count], *views))
        assert ahead.reservations.items() <= made.reservations.items()


@settings(max_examples=100, deadline=None)
@assume_given(queues, busy_clusters, st.integers(1, 4))
def test_passes_with_a_budget_stop_at_it_and_never_over_allocate(
    queue: list[Waiting], views: list[NodeView], steps: int
) -> None:
    memory, left, nodes = None, list(queue), views
    with patch.object(memories, "CHUNK", 1):  # nodes and jobs that are prepared in one step
        for now in range(150):
            clock, asked = _clock(steps)
            made = plan(given(left, *nodes, idle=views, now=float(now)), memory, clock)
            assert len(asked) <= steps
            assert sorted([*numbers(made), *made.reasons]) == [job.number for job in left]
            _check_nothing_twice(made, nodes)
            memory = made.memory
            nodes = [_after(view, made, queue, float(now)) for view in nodes]
            left = [job for job in left if job.number not in numbers(made)]
            if made.is_complete:
                break
    assert made.is_complete
    assert sorted(made.reasons) == [job.number for job in left]


@settings(max_examples=15, deadline=None)
@assume_given(st.lists(st.tuples(st.floats(0, 500), st.floats(1, 5)), min_size=2, max_size=4))
def test_fair_share_converges(users: list[tuple[float, float]]) -> None:
    """Users who have used more and ask for more at a time than others get the same in the long run."""
    used = {f"user{number}": before for number, (before, _) in enumerate(users)}
    jobs = [
        a_job(number, "[a100]")._replace(user=f"user{number - 1}", cost=cost)
        for number, (_, cost) in enumerate(users, 1)
    ]
    for _ in range(300):
        made = plan(replace(given(jobs, a_view(a100=1)), usage=Usage(used)))
        started = jobs[numbers(made)[0] - 1]
        used[started.user] += started.cost
        used = {user: amount * 0.98 for user, amount in used.items()}
    assert max(used.values()) - min(used.values()) <= max(cost for _, cost in users) + 2


def _clock(steps: int) -> tuple[Callable[[], bool], list[None]]:
    asked: list[None] = []

    def is_over() -> bool:
        asked.append(None)
        return len(asked) >= steps

    return is_over, asked


def _after(view: NodeView, made: Plan, queue: list[Waiting], now: float) -> NodeView:
    """The node after the plan was committed."""
    times = {job.number: job.shape.duration_s for job in queue}
    for job in made.placements:
        for process in job.processes:
            if process.node_id == view.id:
                view = _taken(view, job.number, process.share, now + times[job.number])
    return view


def _taken(view: NodeView, number: int, share: Share, until: float) -> NodeView:
    gone = set(share.units)
    return replace(
        view,
        slots=view.slots - 1,
        cpu_milli=view.cpu_milli - (share.cpu_milli or 0),
        memory_mib=view.memory_mib - (share.memory_mib or 0),
        units={kind: tuple(u for u in units if (kind, u) not in gone) for kind, units in view.units.items()},
        held=(*view.held, Held(number, until, share)),
    )


def _check_room(
    view: NodeView,
    at: float,
    starts: dict[int, tuple[float, tuple[ProcessPlacement, ...]]],
    jobs: dict[int, Waiting],
) -> None:
    """What runs on the node at this time, by plan, fits."""
    active = [
        process.share
        for number, (start, processes) in starts.items()
        for process in processes
        if process.node_id == view.id and start <= at < start + jobs[number].shape.duration_s
    ]
    ended = [held.share for held in view.held if held.until <= at]
    free = {(kind, unit) for kind, units in view.units.items() for unit in units}
    free |= {unit for share in ended for unit in share.units}
    taken = [unit for share in active for unit in share.units]
    assert len(taken) == len(set(taken))
    assert set(taken) <= free
    assert len(active) <= view.slots + len(ended)
    for name in ("cpu_milli", "memory_mib"):
        room = getattr(view, name) + sum(getattr(share, name) or 0 for share in ended)
        assert sum(getattr(share, name) or 0 for share in active) <= room


def _check_nothing_twice(made: Plan, views: list[NodeView]) -> None:
    shares = [(p.node_id, p.share) for job in made.placements for p in job.processes]
    for view in views:
        mine = [share for node_id, share in shares if node_id == view.id]
        taken = [unit for share in mine for unit in share.units]
        assert len(mine) <= view.slots
        assert sum(share.cpu_milli or 0 for share in mine) <= view.cpu_milli
        assert sum(share.memory_mib or 0 for share in mine) <= view.memory_mib
        assert len(taken) == len(set(taken))
        assert set(taken) <= {(kind, unit) for kind, units in view.units.items() for unit in units}


def _check_whole(text: str, processes: tuple[ProcessPlacement, ...], views: dict[int, NodeView]) -> None:
    for index, group in enumerate(parse(text).groups):
        mine = [process for process in processes if process.group == index]
        assert group.count.low <= len(mine) <= group.count.high
        assert [process.index for process in mine] == list(range(len(mine)))
        for process in mine:
            view = views[process.node_id]
            assert group.placement is None or group.placement.allows(view.name, view.labels)
            assert (process.share.cpu_milli, process.share.memory_mib) == (group.cpu_milli, group.memory_mib)
            low, high = sum(need.low for need in group.gpus), sum(need.high for need in group.gpus)
            assert low <= len(process.share.units) <= high
            for need in group.gpus:
                if need.kind != "gpu":
                    assert sum(kind == need.kind for kind, _ in process.share.units) >= need.low
