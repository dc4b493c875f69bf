"""The scheduler on traces in virtual time."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pit_protocol.problem import Problem
from pit_server.cli import cli
from pit_server.settings import Settings
from pit_server.simulator import trace_files
from pit_server.simulator.policies import choose
from pit_server.simulator.results import jain, summarize
from pit_server.simulator.simulation import simulate
from pit_server.simulator.trace import Trace, TraceJob, prepare

SETTINGS = Settings(home=Path("none"))
NODE = '{"nodes": 1, "cpu": 8, "mem": 64, "gpus": {"a100": 4}}'
JOBS = """
# the second needs the whole node; the third fits into the gap before it, and the fourth does not
{"submit": 0, "run": 100, "request": "[3:a100]", "user": "anna", "limit": 100}
{"submit": 1, "run": 100, "request": "[4:a100]", "user": "anna", "limit": 100}
{"submit": 2, "run": 50, "request": "[a100]", "user": "anna", "limit": 60}
{"submit": 3, "run": 300, "request": "[a100]", "user": "anna", "limit": 300}
"""


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    file = tmp_path / "trace.jsonl"
    file.write_text(NODE + JOBS)
    return file


@pytest.mark.parametrize(
    ("policy", "starts"),
    [("fifo", [0, 100, 200, 200]), ("easy", [0, 100, 2, 200]), ("pit", [0, 100, 2, 200])],
)
def test_each_policy_starts_jobs_by_its_rule(trace_file: Path, policy: str, starts: list[float]) -> None:
    trace = prepare(trace_files.read(trace_file))
    ran = simulate(trace, choose(policy, trace.nodes, 50), SETTINGS)
    assert [each.started for each in sorted(ran, key=lambda each: each.job.submitted)] == starts


def test_fair_share_lets_a_user_with_one_job_pass_one_with_many(tmp_path: Path) -> None:
    many = [TraceJob(0.0, 100.0, "[4:a100]", "anna") for _ in range(5)]
    (tmp_path / "nodes").write_text(NODE + '\n{"submit": 0, "run": 1, "request": "[]"}')
    nodes = trace_files.read(tmp_path / "nodes").nodes
    trace = prepare(Trace(nodes, (*many, TraceJob(1.0, 100.0, "[4:a100]", "bob"))))
    ran = {policy: simulate(trace, choose(policy, nodes, 50), SETTINGS) for policy in ("pit", "easy")}
    started = {
        policy: [each.started for each in found if each.job.user == "bob"] for policy, found in ran.items()
    }
    assert started == {"pit": [100.0], "easy": [500.0]}


def test_the_results_are_those_of_the_schedule(trace_file: Path) -> None:
    trace = prepare(trace_files.read(trace_file))
    found = summarize("fifo", trace, simulate(trace, choose("fifo", trace.nodes, 50), SETTINGS))
    assert (found.jobs, found.mean_wait_s, found.p95_wait_s, found.max_wait_s) == (4, 123.5, 198.0, 198.0)
    assert found.utilisation == 9 / 12  # of 4 GPUs for 3 s, in which one job ran
    assert found.slowdown == pytest.approx((1 + 1.99 + 248 / 50 + 497 / 300) / 4)


def test_arrivals_are_moved_until_the_load_is_as_wanted(trace_file: Path) -> None:
    trace = prepare(trace_files.read(trace_file), load=0.5)
    assert trace.load == pytest.approx(0.5)
    assert [job.run_s for job in trace.jobs] == [100, 100, 50, 300]


def test_a_job_of_the_standard_workload_format_has_a_process_per_processor(tmp_path: Path) -> None:
    file = tmp_path / "trace.swf"
    rest = "-1 -1 {} {} -1 1 {} -1 -1 0 -1 -1 -1"
    lines = [
        "; MaxNodes: 20",
        "1 5 -1 120 16 " + rest.format(-1, -1, 7),
        "2 6 -1 60 1 " + rest.format(4, 90, -1),
        "3 7 -1 -1 1 " + rest.format(-1, -1, -1),
    ]
    file.write_text("\n".join(lines))
    trace = trace_files.read(file)
    assert [view.cpu_milli for view in trace.nodes] == [8000, 8000, 4000]
    assert trace.jobs == (
        TraceJob(5.0, 120.0, "16:[cpu]", "user7"),
        TraceJob(6.0, 60.0, "4:[cpu]", "", limit_s=90.0),
    )
    completed = prepare(trace).jobs
    assert [job.limit_s for job in completed] == [300.0, 90.0]
    assert completed[1].user.startswith("user")


def test_a_table_of_tasks_is_read_with_the_one_of_nodes_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a_nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n")
    (tmp_path / "a_tasks.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
        "p0,12000,16384,1,500,P100|T4,10,130,30\np1,500,1000,0,0,,11,21,11\np2,1000,1000,1,1000,,12,13,\n"
    )
    trace = trace_files.read(tmp_path / "a_tasks.csv")
    assert trace.nodes[0].units == {"p100": ("p100-0", "p100-1")}
    assert trace.jobs == (
        TraceJob(10.0, 50.0, "[1:p100,12:cpu,16:mem]"),
        TraceJob(11.0, 10.0, "[0.5:cpu,1:mem]"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no nodes"),
        (NODE, "has no jobs"),
        ('{"submit": 1', "has a bad line 1"),
        ('{"submit": 1, "run": 0, "request": "[]"}', "has a bad line 1: a job runs for some time"),
        ('{"submit": 1, "run": 5, "request": "[["}', "has a bad request in line 1"),
        (NODE + '\n{"submit": 1, "run": 5, "request": "[h100]"}', "no job of the trace can run on its nodes"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "trace").write_text(text)
    with pytest.raises(Problem, match=message.replace("[", r"\[")):
        prepare(trace_files.read(tmp_path / "trace"))


def test_fairness_is_one_if_all_are_alike() -> None:
    assert jain([0.5, 0.5]) == 1.0
    assert jain([1.0, 0.0]) == 0.5


def test_the_command_prints_json_or_a_table_and_knows_settings(trace_file: Path) -> None:
    command = ["simulate", str(trace_file), "--policy", "pit", "--policy", "fifo", "--load", "1"]
    found = json.loads(CliRunner().invoke(cli, [*command, "--json", "--set", "reservations=0"]).stdout)
    assert [row["policy"] for row in found] == ["pit", "fifo"]
    table = CliRunner().invoke(cli, command).stdout.splitlines()
    assert [line.split()[0] for line in table] == ["policy", "pit", "fifo"]
    refused = CliRunner().invoke(cli, [*command, "--set", "tls=on"])
    assert "tls is not a setting of the scheduler that a simulation uses" in refused.output
