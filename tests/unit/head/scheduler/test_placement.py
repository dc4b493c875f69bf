"""The scheduler: placement decided on values."""

from collections import Counter

from pit_server.scheduler.demand import RANDOM, SEQUENTIAL, SPREAD, Access
from pit_server.scheduler.plan import plan
from tests.support.scheduling import a_job, a_view, given, nodes_of, numbers, planned, units_of


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


def test_a_closed_node_takes_no_job_of_a_user_without_access() -> None:
    closed = Access(closed_nodes=frozenset({0}))
    made = plan(given([a_job(1, "[]", closed), a_job(2, "[]")], a_view("n0")))
    assert numbers(made) == [2]
    assert made.reasons[1].render() == "no node is online"


def test_a_closed_unit_is_not_used() -> None:
    closed = Access(closed_units=frozenset({(0, "a100-0")}))
    made = plan(given([a_job(1, "[gpu]", closed), a_job(2, "[a100]", closed)], a_view(a100=2)))
    assert [units_of(job) for job in made.placements] == [[["a100-1"]]]
    assert made.reasons[2].render() == "needs 1 a100, 0 free for you; job 1 holds them"


def test_an_equal_request_with_other_access_is_tried_again() -> None:
    closed = Access(closed_nodes=frozenset({0}))
    queue = [a_job(1, "[a100]", closed), a_job(2, "[a100]")]
    assert numbers(plan(given(queue, a_view(a100=1)))) == [2]


def test_spread_puts_one_process_on_each_node() -> None:
    views = [a_view(f"n{i}", a100=4) for i in range(3)]
    made = plan(given([a_job(1, "4:[a100]", mode=SPREAD)], *views))
    assert sorted(nodes_of(made.placements[0]).values()) == [1, 1, 2]


def test_sequential_fills_nodes_in_the_order_of_their_names() -> None:
    views = a_view("n0", a100=8), a_view("n1", a100=2)
    made = plan(given([a_job(1, "[2:a100]", mode=SEQUENTIAL)], *views))
    assert nodes_of(made.placements[0]) == Counter({0: 1})


def test_random_differs_between_jobs_but_not_between_passes() -> None:
    views = [a_view(f"n{i}", a100=8) for i in range(8)]
    jobs = [a_job(number, "[a100]", mode=RANDOM) for number in range(1, 9)]
    first, second = (plan(given(jobs, *views)).placements for _ in range(2))
    assert first == second
    assert len({node for job in first for node in nodes_of(job)}) > 2


def test_a_gang_uses_parts_of_nodes() -> None:
    made = planned(["2:[3:a100]"], a_view("n0", a100=4), a_view("n1", a100=4))
    assert nodes_of(made.placements[0]) == Counter({0: 1, 1: 1})


def test_small_jobs_keep_whole_nodes_free() -> None:
    made = planned(["[a100]"] * 4 + ["[4:a100]"], a_view("n0", a100=4), a_view("n1", a100=4))
    assert numbers(made) == [1, 2, 3, 4, 5]
