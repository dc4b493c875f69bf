"""The scheduler: placement decided on values."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pit_grammar import parse
from pit_server.scheduler.capacity import Access, NodeView
from pit_server.scheduler.plan import Plan, Waiting, plan
from tests.support.scheduling import a_view, nodes_of, numbers, planned, units_of


def test_a_job_that_fits_is_placed_whole() -> None:
    made = planned(["3:[2:a100]"], a_view("n0", a100=4), a_view("n1", a100=4))
    assert [(p.group, p.index) for p in made.placements[0].processes] == [(0, 0), (0, 1), (0, 2)]
    assert [len(units) for units in units_of(made.placements[0])] == [2, 2, 2]


def test_a_job_that_does_not_fit_whole_holds_nothing() -> None:
    made = planned(["3:[2:a100]"], a_view("n0", a100=4))
    assert made.placements == ()
    assert list(made.reasons) == [1]


def test_the_first_to_come_is_the_first_to_run() -> None:
    assert numbers(planned(["[2:a100]", "[2:a100]", "[2:a100]"], a_view(a100=4))) == [1, 2]


def test_a_job_behind_passes_when_it_needs_nothing_that_the_one_ahead_waits_for() -> None:
    assert numbers(planned(["[8:a100]", "[2:h100]"], a_view(a100=4, h100=2))) == [2]


def test_a_job_behind_does_not_take_what_the_one_ahead_waits_for() -> None:
    made = planned(["[8:a100]", "[2:a100]"], a_view(a100=4))
    assert numbers(made) == []
    assert made.reasons[2].render() == "waits behind job 1"


def test_a_job_for_any_gpu_does_not_take_those_that_the_one_ahead_waits_for() -> None:
    made = planned(["[8:a100]", "[2:gpu]"], a_view(a100=4, h100=2))
    assert units_of(made.placements[0]) == [["h100-0", "h100-1"]]


def test_a_job_that_waits_for_any_gpu_is_not_passed_by_one_that_needs_a_gpu() -> None:
    assert numbers(planned(["[8:gpu]", "[h100]", "[cpu]"], a_view(a100=4, h100=2))) == [3]


def test_a_job_that_waits_for_cores_is_not_starved_by_smaller_jobs() -> None:
    assert numbers(planned(["[8:cpu]", "[cpu]", "[]"], a_view(cpu=4))) == [3]


def test_a_job_that_waits_for_memory_is_not_starved_by_smaller_jobs() -> None:
    assert numbers(planned(["[64:mem]", "[mem]", "[cpu]"], a_view(mem=16))) == [3]


def test_a_waiting_job_withholds_a_slot_for_each_of_its_processes() -> None:
    assert numbers(planned(["3:[a100]", "[]", "[]"], a_view(slots=4, a100=2))) == [2]


def test_a_job_that_waits_for_one_node_lets_others_run_elsewhere() -> None:
    views = a_view("n0", a100=1), a_view("n1", a100=1)
    made = planned(["[2:a100]@n0", "[a100]"], *views)
    assert [nodes_of(job) for job in made.placements] == [Counter({1: 1})]


def test_jobs_are_packed_where_least_is_left_over() -> None:
    made = planned(["[2:a100]"], a_view("n0", a100=8), a_view("n1", a100=3))
    assert nodes_of(made.placements[0]) == Counter({1: 1})


def test_a_job_without_gpus_leaves_the_gpus_to_others() -> None:
    made = planned(["[]"], a_view("n0", a100=8), a_view("n1"))
    assert nodes_of(made.placements[0]) == Counter({1: 1})


def test_a_job_stays_on_as_few_nodes_as_possible() -> None:
    made = planned(["4:[2:a100]"], *(a_view(f"n{i}", a100=8) for i in range(4)))
    assert len(nodes_of(made.placements[0])) == 1


def test_a_job_that_fits_on_one_node_is_not_split_to_fill_a_smaller_one() -> None:
    made = planned(["2:[a100]"], a_view("n0", a100=1), a_view("n1", a100=2))
    assert nodes_of(made.placements[0]) == Counter({1: 2})


def test_a_pinned_process_runs_on_its_node_only() -> None:
    views = a_view("n0", a100=2), a_view("n1", a100=4)
    assert nodes_of(planned(["2:[a100]@n1"], *views).placements[0]) == Counter({1: 2})
    assert planned(["[4:a100]@n0"], *views).placements == ()


def test_a_labelled_placement_admits_nodes_with_that_label() -> None:
    views = a_view("n0", a100=2, labels="rack=r1"), a_view("n1", a100=4, labels="rack=r2")
    assert nodes_of(planned(["[a100]@rack=r2"], *views).placements[0]) == Counter({1: 1})
    assert planned(["[a100]@rack=r3"], *views).placements == ()


def test_a_free_process_leaves_the_node_to_the_one_that_is_pinned_to_it() -> None:
    made = planned(["[2:a100],[a100]@n0"], a_view("n0", a100=2), a_view("n1", a100=4))
    assert [process.node_id for process in made.placements[0].processes] == [1, 0]


def test_a_labelled_process_leaves_the_node_to_the_one_that_is_pinned_to_it() -> None:
    views = a_view("n0", a100=2, labels="rack=r1"), a_view("n1", a100=4, labels="rack=r1")
    made = planned(["[2:a100]@rack=r1,[a100]@n0"], *views)
    assert [process.node_id for process in made.placements[0].processes] == [1, 0]


def test_any_gpu_leaves_those_that_another_group_asks_for_by_name() -> None:
    made = planned(["[2:gpu],[2:a100]"], a_view(a100=2, h100=2))
    assert units_of(made.placements[0]) == [["h100-0", "h100-1"], ["a100-0", "a100-1"]]


def test_any_gpu_leaves_those_that_the_same_process_asks_for_by_name() -> None:
    made = planned(["[gpu,2:a100]"], a_view(a100=2, h100=1))
    assert sorted(units_of(made.placements[0])[0]) == ["a100-0", "a100-1", "h100-0"]


def test_an_elastic_group_gets_as_many_processes_as_fit() -> None:
    assert len(planned(["2-9:[a100]"], a_view(a100=5)).placements[0].processes) == 5


def test_an_elastic_group_does_not_start_below_its_minimum() -> None:
    assert planned(["3-9:[a100]"], a_view(a100=2)).placements == ()


def test_an_elastic_process_gets_as_many_units_as_there_are() -> None:
    assert [len(units) for units in units_of(planned(["[2-8:a100]"], a_view(a100=5)).placements[0])] == [5]
    assert [len(units) for units in units_of(planned(["[2-3:a100]"], a_view(a100=5)).placements[0])] == [3]


def test_every_group_gets_its_minimum_before_one_grows() -> None:
    made = planned(["1-9:[a100],2:[a100]"], a_view(a100=4))
    assert Counter(process.group for process in made.placements[0].processes) == {0: 2, 1: 2}


def test_amounts_of_cores_and_memory_are_added_up() -> None:
    made = planned(["3:[2:cpu,4:mem]", "[2:cpu]", "[2:cpu]"], a_view(cpu=8, mem=16))
    assert numbers(made) == [1, 2]
    share = made.placements[0].processes[0].share
    assert (share.cpu_milli, share.memory_mib) == (2000, 4096)


def test_a_request_without_cores_takes_only_a_slot() -> None:
    assert numbers(planned(["[]"] * 5, a_view(slots=3, cpu=1))) == [1, 2, 3]


def test_a_plan_is_the_same_for_the_same_queue() -> None:
    views = [a_view(f"n{i}", a100=4, h100=i) for i in range(4)]
    requests = ["[gpu]", "2:[2:a100]", "1-4:[h100]", "[4:cpu]"]
    assert planned(requests, *views) == planned(requests, *views)


@pytest.mark.parametrize(
    ("requests", "reason"),
    [
        (["[4:a100]"], "needs 4 a100, 2 free"),
        (["2:[16:cpu]"], "needs 32 cores, 16 free"),
        (["3:[8:mem]"], "needs 24 GiB of memory, 16 free"),
        (["20:[]"], "needs 20 slots, 16 free"),
        (["[2:a100]"], "no single node has room for a process [2:a100]"),
        (["[a100]@n7"], "waits for @n7, which is not online"),
        (["[a100,8:cpu],[a100,8:cpu]@n0,[8:cpu]@n1"], "waits for room for all its processes at once"),
    ],
)
def test_the_reason_says_what_is_missing(requests: list[str], reason: str) -> None:
    views = a_view("n0", a100=1, mem=8), a_view("n1", a100=1, mem=8)
    assert planned(requests, *views).reasons[1].render() == reason


@pytest.mark.parametrize(
    ("request_text", "holders", "reason"),
    [
        ("[2:cpu]", {"cpu": {16}}, "needs 2 cores, 0 free; job 16 holds them"),
        ("[2:cpu]", {"cpu": {16}, "mem": {9}}, "needs 2 cores, 0 free; job 16 holds them"),
        ("[8:mem]", {"mem": {5, 4}}, "needs 8 GiB of memory, 4 free; job 4 and job 5 hold the others"),
        (
            "2:[]",
            {"slot": {1, 2, 3, 4, 5}},
            "needs 2 slots, 1 free; job 1, job 2, job 3 and 2 more hold the others",
        ),
        ("[3:a100]", {"a100": {7}, "h100": {8}}, "needs 3 a100, 2 free; job 7 holds the others"),
        ("[3:gpu]", {"a100": {7}, "h100": {8}}, "needs 3 gpu, 2 free; job 7 and job 8 hold the others"),
    ],
)
def test_the_reason_names_the_jobs_that_hold_what_is_missing(
    request_text: str, holders: dict[str, set[int]], reason: str
) -> None:
    view = replace(a_view(slots=1, cpu=0, mem=4, a100=2), holders=holders)
    assert planned([request_text], view).reasons[1].render() == reason


def test_a_job_placed_in_the_same_pass_is_named_as_holder() -> None:
    made = planned(["[2:cpu]", "[cpu]"], a_view(cpu=2))
    assert made.reasons[2].render() == "needs 1 core, 0 free; job 1 holds them"


def test_jobs_of_one_hidden_user_are_named_once() -> None:
    made = plan([Waiting(9, parse("[cpu]"))], [replace(a_view(cpu=0), holders={"cpu": {1, 2}})])
    assert made.reasons[9].render(lambda number: "a job of bob").endswith("; a job of bob holds them")


def test_what_is_kept_for_others_is_not_counted_as_free() -> None:
    closed = Access(closed_units=frozenset({(0, "a100-0")}))
    made = plan([Waiting(1, parse("[2:a100]"), closed)], [a_view(a100=2)])
    assert made.reasons[1].render() == "needs 2 a100, 1 free for you"


def test_cores_of_a_node_kept_for_others_are_not_counted_as_free() -> None:
    closed = Access(closed_nodes=frozenset({1}))
    made = plan([Waiting(1, parse("[4:cpu]"), closed)], [a_view(cpu=2), a_view("n1", cpu=8)])
    assert made.reasons[1].render() == "needs 4 cores, 2 free for you"


def test_nodes_out_of_service_are_named_with_their_admins_reason() -> None:
    idle = [
        replace(a_view("n0"), state="draining", remark="new PSU"),
        replace(a_view("n1"), state="maintenance"),
    ]
    assert plan([Waiting(1, parse("[]"))], [], idle).reasons[1].render() == (
        "no node takes new jobs: n0 is draining (new PSU), n1 is in maintenance"
    )
    pinned = plan([Waiting(1, parse("[]@n0"))], [], idle).reasons[1].render()
    assert pinned == "waits for @n0, which is draining (new PSU)"


def test_without_a_node_online_the_reason_says_that() -> None:
    reason = planned(["[]"]).reasons[1].render()
    assert "None" not in reason
    assert "online" in reason


def test_equal_requests_wait_behind_the_first_of_them() -> None:
    made = planned(["[4:a100]", "[4:a100]", "[a100]"], a_view(a100=2))
    assert made.reasons[2].render() == "waits behind job 1, which needs the same"
    assert made.reasons[3].render() == "waits behind job 1 and 1 more"


def test_an_elastic_job_behind_others_gets_a_reason_when_a_kind_is_used_up() -> None:
    made = planned(["[a100]", "[2:h100]", "[1-2:gpu]"], a_view(a100=1, h100=1))
    assert numbers(made) == [1]
    assert made.reasons[3].render() == "waits behind job 2"


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


@settings(max_examples=300, deadline=None)
@given(st.lists(requests, max_size=6), clusters)
def test_no_plan_over_allocates(queue: list[str], views: list[NodeView]) -> None:
    made = plan([Waiting(number, parse(text)) for number, text in enumerate(queue)], views)
    assert sorted([*numbers(made), *made.reasons]) == list(range(len(queue)))
    assert all(reason.render() for reason in made.reasons.values())
    _check_nothing_twice(made, views)
    for job in made.placements:
        _check_whole(queue[job.number], job.processes, {view.id: view for view in views})


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


def _check_whole(text: str, processes, views: dict[int, NodeView]) -> None:
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


def test_a_closed_node_takes_no_job_of_a_user_without_access() -> None:
    closed = Access(closed_nodes=frozenset({0}))
    made = plan([Waiting(1, parse("[]"), closed), Waiting(2, parse("[]"))], [a_view("n0")])
    assert numbers(made) == [2]
    assert made.reasons[1].render() == "no node is online"


def test_a_closed_unit_is_not_used() -> None:
    closed = Access(closed_units=frozenset({(0, "a100-0")}))
    made = plan([Waiting(1, parse("[gpu]"), closed), Waiting(2, parse("[a100]"), closed)], [a_view(a100=2)])
    assert [units_of(job) for job in made.placements] == [[["a100-1"]]]
    assert made.reasons[2].render() == "needs 1 a100, 0 free for you; job 1 holds them"


def test_a_waiting_job_does_not_withhold_what_its_user_may_not_use() -> None:
    closed = Access(closed_units=frozenset({(0, "a100-0")}))
    queue = [Waiting(1, parse("[2:a100]"), closed), Waiting(2, parse("[a100]")), Waiting(3, parse("[a100]"))]
    made = plan(queue, [a_view(a100=2)])
    assert [(job.number, units_of(job)) for job in made.placements] == [(2, [["a100-0"]])]


def test_an_equal_request_with_other_access_is_tried_again() -> None:
    closed = Access(closed_nodes=frozenset({0}))
    queue = [Waiting(1, parse("[a100]"), closed), Waiting(2, parse("[a100]"))]
    assert numbers(plan(queue, [a_view(a100=1)])) == [2]


def test_an_invisible_job_is_not_named() -> None:
    made = planned(["[2:a100]", "[2:a100]"], a_view(a100=1))
    shown = made.reasons[2].render(lambda number: "a job of bob")
    assert shown == "waits behind a job of bob, which needs the same"


def test_a_request_that_became_impossible_gets_that_reason() -> None:
    queue = [Waiting(1, parse("[h100]"))]
    made = plan(queue, [a_view(a100=1)], idle=[a_view(a100=1)])
    assert made.reasons[1].render() == "[h100] cannot be fulfilled: no node has h100; the cluster has a100"
