"""Passes of the scheduler over a large cluster: without database, on values."""

import gc
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter, process_time
from typing import NamedTuple

from bench.sizes import Sizes
from bench.table import Row, percentile
from pit_grammar import parse
from pit_server.connections.front import COLLECTIONS
from pit_server.scheduler.capacity import Held, NodeView, Share
from pit_server.scheduler.demand import Shape
from pit_server.scheduler.order import Usage, Waiting
from pit_server.scheduler.plan import FULL_PASS_S, Given, Plan, plan

HOUR_S = 3600.0
KINDS = ("a100", "h100", "v100")
MOST_BYTES = 2000  # of memory for a waiting job
BUDGET_S = 0.2  # of a pass, as in the settings


class Taken(NamedTuple):
    wall: float
    cpu: float


def measure(sizes: Sizes) -> list[Row]:
    draw = random.Random(7)
    jobs, distinct = sizes.planned_jobs, sizes.planned_shapes
    full = _cluster(sizes.planned_nodes, draw, busy=0.97)
    idle = _cluster(sizes.planned_nodes, draw, busy=0.0)
    queue = _queue(jobs, distinct, draw)
    given = Given(queue, full, idle, _usage(), now=0.0)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)  # as in the head
    what = f"{sizes.planned_nodes:,} nodes, {jobs:,} jobs, {distinct:,} distinct"
    floor = _sorting(queue)
    return [
        _row(f"full pass, {what}, p50", _full(given, sizes.passes), 0.15, floor),
        _row(
            "the same while all nodes are idle, first pass",
            [_timed(lambda: plan(replace(given, nodes=idle)))],
        ),
        _row("first pass after the start", [_timed(lambda: plan(given))]),
        _row(
            f"longest pass of a start, {BUDGET_S * 1000:.0f} ms each (CPU)", _budgeted(given), 1.1 * BUDGET_S
        ),
        _row(f"after one event, {what}, p50", _events(given, sizes.passes, draw), 0.01, floor),
        *_growth(sizes, full, idle, draw),
        _memory(jobs, distinct, full, idle, draw),
    ]


def _timed(call: Callable[[], object]) -> Taken:
    """The machine may be shared, so CPU time is measured beside wall time."""
    begun, used = perf_counter(), process_time()
    call()
    return Taken(perf_counter() - begun, process_time() - used)


def _row(what: str, taken: Sequence[Taken], goal_s: float | None = None, floor_s: float | None = None) -> Row:
    wall, cpu = (percentile(column, 0.5) for column in zip(*taken, strict=True))
    return Row(
        what,
        f"{wall * 1000:.0f} ms, CPU {cpu * 1000:.0f} ms",
        f"{floor_s * 1000:.0f} ms" if floor_s else "-",
        cpu / floor_s if floor_s else None,
        f"CPU ≤ {goal_s * 1000:.0f} ms" if goal_s else "-",
        cpu <= goal_s if goal_s else None,
    )


def _sorting(queue: Mapping[int, Waiting]) -> float:
    """The floor: sort all jobs once by a key made for each. CPU time."""
    return min(
        _timed(lambda: sorted((-job.priority, job.cost, job.number) for job in queue.values())).cpu
        for _ in range(5)
    )


def _full(given: Given, times: int) -> list[Taken]:
    """Passes through the whole queue after the nodes have been filled."""
    made, taken = plan(given), []
    for _ in range(times):
        given = replace(_committed(given, made), now=given.now + FULL_PASS_S)
        made, spent = _plan(given, made)
        taken.append(spent)
    return taken


def _plan(given: Given, before: Plan) -> tuple[Plan, Taken]:
    begun, used = perf_counter(), process_time()
    made = plan(given, before.memory)
    return made, Taken(perf_counter() - begun, process_time() - used)


def _budgeted(given: Given) -> list[Taken]:
    """The longest of the passes after a start, each of which ends when its CPU time is used up."""
    made, longest = Plan(is_complete=False), Taken(0, 0)
    while not made.is_complete:
        over_at = process_time() + BUDGET_S
        begun, used = perf_counter(), process_time()
        made = plan(given, made.memory, lambda over_at=over_at: process_time() >= over_at)  # type: ignore[misc]
        longest = max(
            longest, Taken(perf_counter() - begun, process_time() - used), key=lambda each: each.cpu
        )
        given = _committed(given, made)
    return [longest]


def _committed(given: Given, made: Plan) -> Given:
    """What is given after the plan was committed."""
    views = list(given.nodes)
    for placement in made.placements:
        for process in placement.processes:
            at = process.node_id
            views[at] = _taken(views[at], placement.number, process.share, given.now + HOUR_S)
    return replace(given, nodes=views, queue={n: job for n, job in given.queue.items() if n in made.reasons})


def _events(given: Given, times: int, draw: random.Random) -> list[Taken]:
    """Passes after one job ended, or one was submitted."""
    return [_plan(state, made)[1] for state, made in _change(given, plan(given), times, draw)]


def _change(given: Given, made: Plan, times: int, draw: random.Random) -> Iterator[tuple[Given, Plan]]:
    for number in range(times):
        given = _committed(given, made)
        views, queue = list(given.nodes), dict(given.queue)
        if number % 2:
            at = draw.choice([i for i, view in enumerate(views) if view.held])
            views[at] = _ended(views[at], draw.randrange(len(views[at].held)))
        else:
            newest = max(queue) + 1
            queue[newest] = draw.choice(list(given.queue.values()))._replace(number=newest)
        given = replace(given, queue=queue, nodes=views, now=given.now + 0.01)
        yield given, made
        made = plan(replace(given, now=given.now + 0.001), made.memory)


def _growth(sizes: Sizes, full: list[NodeView], idle: list[NodeView], draw: random.Random) -> list[Row]:
    """From a tenth of the jobs to all of them: n log n would be 12.5 times as long."""
    few, many = sizes.most_planned // 10, sizes.most_planned
    taken = []
    for count in (few, many):
        queue = _queue(count, min(count // 5, sizes.planned_shapes), draw)
        passes = _full(Given(queue, full, idle, _usage()), 3)
        taken.append(percentile([spent.cpu for spent in passes], 0.5))
    ratio = taken[1] / taken[0]
    what = f"full pass, {many:,} jobs, against {few:,}"
    small, large = (f"CPU {spent * 1000:.0f} ms" for spent in taken)
    return [Row(what, large, small, ratio, "≤ 12.5 ×", ratio <= 12.5)]


def _memory(jobs: int, distinct: int, full: list[NodeView], idle: list[NodeView], draw: random.Random) -> Row:
    """What the head keeps for each waiting job between passes."""
    import tracemalloc

    tracemalloc.start()
    queue = _queue(jobs, distinct, draw)
    made = plan(Given(queue, full, idle, _usage()))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    empty = _size_of_nodes(full, idle)
    each = (size - empty) / len(made.reasons)
    return Row("memory per waiting job", f"{each:.0f} B", goal=f"≤ {MOST_BYTES} B", is_met=each <= MOST_BYTES)


def _size_of_nodes(full: list[NodeView], idle: list[NodeView]) -> int:
    import tracemalloc

    tracemalloc.start()
    made = plan(Given({}, full, idle))
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size if made.memory else sys.maxsize


def _usage() -> Usage:
    users = {f"user{number}": float(number) for number in range(50)}
    return Usage(users, {f"group{number}": float(number) for number in range(5)})


def _cluster(count: int, draw: random.Random, *, busy: float) -> list[NodeView]:
    nodes = []
    for node_id in range(count):
        kind = KINDS[node_id % len(KINDS)]
        view = NodeView(
            node_id,
            f"n{node_id:04}",
            64,
            64_000,
            512 * 1024,
            {kind: tuple(f"{kind}-{n}" for n in range(8))},
            {"rack": f"r{node_id // 32}"},
        )
        while view.units[kind] and draw.random() < busy:
            count_of = min(len(view.units[kind]), draw.choice((1, 1, 2, 4)))
            units = tuple((kind, unit) for unit in view.units[kind][:count_of])
            share = Share(4000 * count_of, 16 * 1024 * count_of, units)
            view = _taken(view, 1_000_000 + draw.randrange(100_000), share, draw.uniform(60, 48 * HOUR_S))
        nodes.append(view)
    return nodes


def _taken(view: NodeView, job: int, share: Share, until: float) -> NodeView:
    gone = {unit for _, unit in share.units}
    units = {kind: tuple(u for u in units if u not in gone) for kind, units in view.units.items()}
    return replace(
        view,
        slots=view.slots - 1,
        cpu_milli=view.cpu_milli - (share.cpu_milli or 0),
        memory_mib=view.memory_mib - (share.memory_mib or 0),
        units=units,
        held=(*view.held, Held(job, until, share)),
    )


def _ended(view: NodeView, position: int) -> NodeView:
    held = view.held[position]
    units = dict(view.units)
    for kind, unit in held.share.units:
        units[kind] = (*units.get(kind, ()), unit)
    return replace(
        view,
        slots=view.slots + 1,
        cpu_milli=view.cpu_milli + (held.share.cpu_milli or 0),
        memory_mib=view.memory_mib + (held.share.memory_mib or 0),
        units=units,
        held=(*view.held[:position], *view.held[position + 1 :]),
    )


def _queue(count: int, distinct: int, draw: random.Random) -> dict[int, Waiting]:
    """Single processes, whole nodes, gangs, jobs without GPUs, pinned ones; all kinds of time limits."""
    shapes = [_shape(draw) for _ in range(max(1, distinct))]
    return {
        number: Waiting(
            number,
            shapes[number % len(shapes)],
            user=f"user{number % 50}",
            group=f"group{number % 5}",
            priority=draw.choice((0, 0, 0, 1)),
            cost=draw.uniform(1, 8) * HOUR_S,
        )
        for number in range(1, count + 1)
    }


def _shape(draw: random.Random) -> Shape:
    kind = draw.choice((*KINDS, "gpu"))
    amounts = f"{draw.randint(1, 32)}:cpu,{draw.randint(1, 128)}:mem"
    text = draw.choices(
        (
            f"[{draw.choice((1, 1, 2, 4, 8))}:{kind},{amounts}]",
            f"{draw.choice((2, 4, 16, 64))}:[8:{kind}]",
            f"{draw.choice((2, 4, 8))}:[{draw.choice((1, 2, 3))}:{kind},{amounts}]",
            f"[{amounts}]",
            f"[{kind},{amounts}]@rack=r{draw.randint(0, 20)}",
            f"[2:cpu],4:[2:{kind}]",
        ),
        (60, 10, 10, 10, 5, 5),
    )[0]
    return Shape(parse(text), duration_s=draw.choice((0.5, 1, 2, 4, 8, 12, 24, 48)) * HOUR_S)
