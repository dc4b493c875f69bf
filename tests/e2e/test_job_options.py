"""Options of a job through the installed `pit`: given, shown, compared, kept by a rerun, searched for."""

from pathlib import Path

import pytest

from tests.support.clusters.local import Cluster
from tests.support.wheels import UV, make_wheel, need_uv, only_from


@pytest.fixture
def cluster(used_cluster: Cluster) -> Cluster:
    """For all tests here: they leave it as it was."""
    return used_cluster


def test_a_comment_stays_with_its_job_and_finds_it(cluster: Cluster) -> None:
    number = int(cluster.json("run", "first", "-d", "true", "--comment", "Baseline, LR 0.1")["number"])
    plain = int(cluster.json("run", "second", "-d", "true")["number"])
    assert "Comment:    Baseline, LR 0.1\n" in cluster.ok("show", f"job:{number}")
    assert "Comment:" not in cluster.ok("show", f"job:{plain}")
    assert cluster.record(number)["options"]["comment"] == "Baseline, LR 0.1"
    cluster.wait(number)

    again = int(cluster.json("rerun", str(number))["number"])
    changed = int(cluster.json("rerun", str(number), "--comment", "Warm restart")["number"])
    assert cluster.record(again)["options"]["comment"] == "Baseline, LR 0.1"
    assert cluster.record(changed)["options"]["comment"] == "Warm restart"
    assert "# comment: Baseline, LR 0.1 -> Warm restart\n" in cluster.ok("diff", str(number), str(changed))

    found = cluster.json("show", "jobs", "comment=%baseline%", "asc=date")
    assert [job["number"] for job in found["jobs"]] == [number, again]


def test_a_job_ends_when_its_time_is_over(cluster: Cluster) -> None:
    # Whatever exit code it gives, it has not finished.
    command = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
    number = int(cluster.json("run", "slow", "-d", command, "--time", "1s")["number"])
    assert cluster.wait(number)["outcome"] == "timed out"
    assert cluster.record(number)["reason"] == "its time limit of 1s is over"


def test_a_comment_that_is_too_long_is_refused_by_its_option(cluster: Cluster) -> None:
    refused = cluster.pit("run", "long", "-d", "true", "--comment", "x" * 1001)
    assert refused.code == 2
    assert "--comment takes 0 to 1,000 characters, not 1,001" in refused.err


def test_a_job_with_an_environment_is_shown_and_a_rerun_takes_it_from_the_cache(
    cluster: Cluster, tmp_path: Path
) -> None:
    need_uv()
    make_wheel(tmp_path / "wheels", "coal")
    cluster.project.write("requirements.txt", "coal\n")
    (tmp_path / "uv").symlink_to(UV)
    values = {"PATH": f"{tmp_path}:{cluster.env['PATH']}", **only_from(tmp_path / "wheels")}
    variables = [word for name, value in values.items() for word in ("-e", f"{name}={value}")]
    command = "python -c 'import coal; print(coal.VERSION)'"
    number = cluster.run(command, "2:[]", "--venv", *variables)
    assert cluster.wait(number)["outcome"] == "succeeded", cluster.log_text(number)
    log = cluster.log_text(number)
    assert log.count("venv: building from requirements.txt, Python") == 1, log
    assert log.splitlines().count("1.0") == 2, log
    assert "Venv:       requirements.txt\n" in cluster.ok("show", f"job:{number}")

    again = int(cluster.json("rerun", str(number))["number"])
    assert cluster.wait(again)["outcome"] == "succeeded"
    assert cluster.log_text(again).count("venv: from the cache: requirements.txt") == 2
