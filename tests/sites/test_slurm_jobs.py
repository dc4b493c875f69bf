"""Jobs at a Slurm site: as on own nodes, with what the site says."""

import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.local import eventually
from tests.support.clusters.slurm_site import SiteCluster

pytestmark = pytest.mark.xdist_group("slurm-jobs")
LONG = "echo begun; sleep 600"


def find_pilot(hpc: SiteCluster) -> Any:
    (pilot,) = (node for node in hpc.get("/nodes")["nodes"] if node["name"].startswith("hpc/"))
    return pilot


def test_a_job_on_two_machines_knows_its_peers_and_delivers_log_exit_code_and_files(
    hpc: SiteCluster, tmp_path: Path
) -> None:
    command = "env | sort; echo $RANK > result-$RANK.txt; [ $RANK = 0 ] || exit 3"
    number = hpc.run(command, "2:[2:a100]@hpc")
    record = hpc.await_end(number)
    assert (record["outcome"], record["reason"]) == ("failed", "worker 1 ended with exit code 3")
    log = hpc.log_text(number).splitlines()
    assert log.count("WORLD_SIZE=2") == 2
    assert {"RANK=0", "RANK=1", "NUM_PROCESSES_GROUP0=2", "CUDA_VISIBLE_DEVICES=0,1"} <= set(log)
    assert sum(line.startswith("HOST_GROUP0_PROCESS1=") for line in log) == 2
    hpc.ok("download", str(number), "-o", str(tmp_path / "job.tar.gz"))
    with tarfile.open(tmp_path / "job.tar.gz") as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert {"result-0.txt", "result-1.txt"} <= names
    # The pilots leave by themselves.
    name = f"pit-{hpc.cluster_id()}-{number}-1"
    eventually(lambda: [name, "COMPLETED"] in hpc.queue("%j", "%T"))


def test_a_stopped_job_ends_and_its_allocation_too(hpc: SiteCluster) -> None:
    number = hpc.run(LONG, "[]@hpc")
    eventually(lambda: "begun" in hpc.log_text(number))
    # Until when it runs, the agent tells at its next look.
    eventually(lambda: find_pilot(hpc)["ends_at"])
    pilot = find_pilot(hpc)
    assert (pilot["state"], pilot["cores"], pilot["host"] in ("n1", "n2")) == ("online", 1, True)
    assert "online" in hpc.ok("show", "sites")
    assert f"running for job {number}: 1 core for 1h" in hpc.ok("show", "site:hpc")
    hpc.ok("stop", str(number))
    assert hpc.await_end(number)["outcome"] == "stopped"
    hpc.await_idle()
    assert not [node for node in hpc.get("/nodes")["nodes"] if node["name"].startswith("hpc/")]


def test_a_job_that_waits_says_what_was_asked_and_what_slurm_says(hpc: SiteCluster) -> None:
    hpc.slurm.run("sbatch", "--parsable", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 600")
    number = hpc.run("true", "2:[a100]@hpc", "--time", "30m")
    eventually(lambda: "Slurm says" in hpc.ok("why", str(number)))
    (row,) = (row for row in hpc.queue("%i", "%j") if row[1].startswith("pit-") and f"-{number}-" in row[1])
    assert f"asked hpc for 2 × 1 a100 for 33m as {row[0]}; Slurm says " in hpc.ok("why", str(number))
    hpc.ok("stop", str(number))
    eventually(lambda: row[0] not in hpc.slurm.run("squeue", "-h", "-o", "%i"))
    assert hpc.record(number)["outcome"] == "stopped"


def test_what_the_site_never_gives_ends_the_job_with_its_words(hpc: SiteCluster) -> None:
    record = hpc.await_end(hpc.run("true", "[64:cpu]@hpc"))
    assert record["outcome"] == "failed"
    assert record["reason"].startswith("hpc refuses 64 cores for 1h: ")
    assert "node configuration is not available" in record["reason"]


def test_the_next_job_of_a_user_gets_the_kept_allocation(hpc: SiteCluster) -> None:
    hpc.ok("set", "site:hpc", "keep=10m")
    first = hpc.run("echo $$", "[]@hpc", "--time", "5m")
    assert hpc.await_end(first)["outcome"] == "succeeded"
    second = hpc.run("echo $$", "[]@hpc", "--time", "5m")
    assert hpc.await_end(second)["outcome"] == "succeeded"
    names = [name for name, state in hpc.queue("%j", "%T") if state == "RUNNING"]
    assert names == [f"pit-{hpc.cluster_id()}-{first}-1"]


def test_a_job_that_waits_for_too_long_here_runs_at_the_site(hpc: SiteCluster) -> None:
    hpc.ok("set", "site:hpc", "overflow=1s")
    blocker = hpc.run("sleep 600", "[2:cpu]")
    hpc.await_state(blocker, "running")
    number = hpc.run("echo $SLURM_JOB_ID", "[2:cpu]")
    eventually(lambda: hpc.record(number)["state"] != "waiting")
    assert hpc.await_end(number)["outcome"] == "succeeded"
    assert "placed on hpc/" in hpc.log_text(number)
