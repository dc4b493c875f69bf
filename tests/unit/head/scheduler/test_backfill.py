"""Jobs that do not fit get reservations; jobs behind them pass if they delay none of them."""

from dataclasses import replace

from pit_server.scheduler.capacity import Window
from pit_server.scheduler.plan import plan
from tests.support.scheduling import a_job, a_view, given, nodes_of, numbers, planned, running

BUSY = running(a_view(a100=4), 99, 100.0, a100=2)  # 2 of 4 are free


def test_a_job_that_does_not_fit_is_reserved_when_it_fits_by_the_time_limits() -> None:
    made = plan(given([a_job(1, "[4:a100]", time=60)], BUSY))
    assert (made.reservations[1].start, made.reservations[1].end) == (100.0, 160.0)


def test_a_job_behind_passes_if_it_ends_before_the_reservation() -> None:
    assert numbers(plan(given([a_job(1, "[4:a100]"), a_job(2, "[2:a100]", time=100)], BUSY))) == [2]


def test_a_job_behind_that_would_delay_the_reservation_waits() -> None:
    assert numbers(plan(given([a_job(1, "[4:a100]"), a_job(2, "[2:a100]", time=101)], BUSY))) == []


def test_a_job_behind_takes_what_the_reservation_leaves() -> None:
    assert numbers(planned(["[3:a100]", "[a100]"], BUSY)) == [2]


def test_a_job_that_waits_for_cores_withholds_no_gpus() -> None:
    view = running(a_view(a100=4, cpu=8), 99, 100.0, cpu=8)
    assert numbers(planned(["[8:cpu]", "[4:a100]"], view)) == [2]


def test_cores_are_kept_for_the_reservation() -> None:
    view = running(a_view(cpu=8, slots=2), 99, 100.0, cpu=4)
    assert numbers(planned(["[6:cpu]", "[4:cpu]", "[2:cpu]", "[]"], view)) == [3]


def test_an_impossible_job_reserves_nothing() -> None:
    view = a_view(a100=8)
    made = plan(given([a_job(1, "[9:a100]"), a_job(2, "[8:a100]")], view, idle=[view]))
    assert (numbers(made), dict(made.reservations)) == ([2], {})
    without_idle = plan(given([a_job(1, "[9:a100]"), a_job(2, "[8:a100]")], view))
    assert numbers(without_idle) == [2]


def test_a_job_for_a_node_that_is_away_reserves_nothing() -> None:
    made = plan(given([a_job(1, "[a100]@n1")], BUSY, idle=[a_view(a100=4), a_view("n1", a100=1)]))
    assert not made.reservations


def test_mixed_jobs_fill_an_idle_cluster() -> None:
    views = [a_view(f"n{number}", slots=64, cpu=64, a100=8) for number in range(100)]
    sizes = ["[8:a100]", "4:[8:a100]", "[a100]", "[2:a100]", "2:[3:a100]", "[4:a100]"]
    made = planned([sizes[number % len(sizes)] for number in range(1000)], *views)
    held = sum(len(p.share.units) for job in made.placements for p in job.processes)
    assert held >= 799  # of 800


def test_only_the_first_jobs_get_reservations() -> None:
    jobs = [a_job(number, "[4:a100]") for number in range(1, 6)]
    made = plan(replace(given(jobs, BUSY), reservations=2))
    assert sorted(made.reservations) == [1, 2]
    assert [made.reservations[number].start for number in (1, 2)] == [100.0, 3700.0]


def test_a_gang_is_reserved_when_enough_nodes_are_free_at_once() -> None:
    views = [running(a_view(f"n{n}", a100=2), 90 + n, 100.0 * n, a100=2) for n in range(1, 5)]
    made = planned(["3:[2:a100]"], *views)
    assert made.reservations[1].start == 300.0
    assert made.reservations[1].nodes == {1, 2, 3}


def test_a_request_of_several_groups_is_reserved_when_all_fit() -> None:
    views = running(a_view("n0", a100=2), 9, 50.0, a100=2), running(a_view("n1", h100=2), 8, 70.0, h100=2)
    assert planned(["[2:a100],[2:h100]"], *views).reservations[1].start == 70.0


def test_a_job_waits_for_the_end_of_a_maintenance_window_that_it_would_run_into() -> None:
    view = replace(a_view(a100=1), windows=(Window(600.0, 1200.0),))
    made = plan(given([a_job(1, "[a100]", time=601), a_job(2, "[a100]", time=600)], view))
    assert made.reservations[1].start == 1200.0
    assert numbers(made) == [2]


def test_a_job_runs_beside_a_node_with_a_maintenance_window() -> None:
    views = replace(a_view(a100=1), windows=(Window(600.0, 1200.0),)), a_view("n1", a100=1)
    assert list(nodes_of(planned(["[a100]"], *views).placements[0])) == [1]


def test_the_reason_names_the_maintenance() -> None:
    view = replace(a_view(a100=1), windows=(Window(600.0, 1200.0),))
    made = planned(["[a100]"], view)
    assert made.reasons[1].render() == (
        "would not end before the maintenance of n0; a shorter --time lets it start"
    )
