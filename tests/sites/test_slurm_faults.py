"""What breaks at a Slurm site: a job ends right, and once."""

import os
import signal

import pytest

from tests.support.clusters.local import eventually, is_alive
from tests.support.clusters.slurm_site import SiteCluster

pytestmark = pytest.mark.xdist_group("slurm-faults")
CRASHED = 137  # by a failpoint
LONG = "echo begun; sleep 600"


def count_allocations(hpc: SiteCluster, number: int) -> int:
    return sum(f"-{number}-" in name for (name,) in hpc.queue("%j"))


@pytest.mark.parametrize("place", ["before-submit", "after-submit"])
def test_an_agent_that_is_killed_around_its_request_makes_one_allocation(
    hpc: SiteCluster, place: str
) -> None:
    hpc.kill_agent()
    hpc.start_agent(PIT_CRASH_AT=place)
    number = hpc.run("echo once >> $KEEP_DIR/runs", "[]@hpc")
    assert hpc.await_agent_end() == CRASHED
    hpc.start_agent()
    assert hpc.await_end(number)["outcome"] == "succeeded"
    assert count_allocations(hpc, number) == 1


def test_a_job_goes_on_without_agent_and_head(hpc: SiteCluster) -> None:
    number = hpc.run("echo begun; until [ -e $JOB_DIR/go ]; do sleep 0.1; done", "[]@hpc")
    eventually(lambda: "begun" in hpc.log_text(number))
    hpc.kill_agent()
    hpc.kill("head")
    assert hpc.pit("up").code == 0
    hpc.start_agent()
    assert hpc.record(number)["state"] == "running"
    (hpc.home / "head/data/jobs" / str(number) / "1/go").touch()
    assert hpc.await_end(number)["outcome"] == "succeeded"
    assert count_allocations(hpc, number) == 1


def test_a_killed_pilot_loses_its_process_and_the_job_runs_again(hpc: SiteCluster) -> None:
    command = 'echo begun; [ "$ATTEMPT" = 2 ] || sleep 600'
    number = hpc.run(command, "[]@hpc", "--retry", "1")
    eventually(lambda: "begun" in hpc.log_text(number))
    (pilot,) = hpc.pilots()
    os.kill(pilot, signal.SIGKILL)
    eventually(lambda: not is_alive(pilot))
    record = hpc.await_end(number)
    assert (record["outcome"], record["attempt"]) == ("succeeded", 2)
    assert "hpc ended its allocation" in hpc.log_text(number)
    assert count_allocations(hpc, number) == 2


def test_a_cancelled_allocation_loses_the_job_with_the_site_as_the_reason(hpc: SiteCluster) -> None:
    number = hpc.run(LONG, "2:[]@hpc")
    eventually(lambda: hpc.log_text(number).count("begun") == 2)
    (allocation,) = hpc.site()["allocations"]
    hpc.slurm.run("scancel", allocation["id"])
    record = hpc.await_end(number)
    assert record["outcome"] == "lost"
    assert f"hpc ended its allocation {allocation['id']}" in record["reason"]


def test_the_end_of_an_allocations_time_loses_the_job_in_good_order(hpc: SiteCluster) -> None:
    hpc.ok("set", "site:hpc", "time=1m")
    number = hpc.run("trap 'echo saved; exit 0' TERM; echo begun; sleep 600 & wait", "[]@hpc")
    record = hpc.await_end(number)
    assert record["outcome"] == "lost"
    assert record["reason"].endswith("its time is over")
    assert "saved" in hpc.log_text(number)


def test_a_job_outlives_a_controller_that_is_killed(hpc: SiteCluster) -> None:
    number = hpc.run("echo begun; until [ -e $JOB_DIR/go ]; do sleep 0.1; done", "[]@hpc")
    eventually(lambda: "begun" in hpc.log_text(number))
    eventually(lambda: hpc.site()["allocations"][0]["id"])
    hpc.slurm.save(hpc.site()["allocations"][0]["id"])
    hpc.slurm.kill("slurmctld")
    eventually(lambda: hpc.site()["trouble"])
    assert hpc.record(number)["state"] == "running"
    hpc.slurm.start_controller()
    eventually(lambda: not hpc.site()["trouble"])
    (hpc.home / "head/data/jobs" / str(number) / "1/go").touch()
    assert hpc.await_end(number)["outcome"] == "succeeded"
