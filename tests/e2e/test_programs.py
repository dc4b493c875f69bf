"""Programs that use the installed `pit`: a shell that completes words, an agent that calls tools."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.clusters.local import PIT, Cluster, eventually


@pytest.fixture
def cluster(used_cluster: Cluster) -> Cluster:
    """For all tests here: they leave it as it was."""
    return used_cluster


class Agent:
    """A client of the Model Context Protocol."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process, self._id = process, 0

    def send(self, method: str, **params: Any) -> None:
        assert self._process.stdin is not None
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            self._id += 1
            message["id"] = self._id
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def ask(self, method: str, **params: Any) -> Any:
        assert self._process.stdout is not None
        self.send(method, **params)
        answer = json.loads(self._process.stdout.readline())
        assert answer["id"] == self._id
        return answer.get("result") or answer["error"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)


@contextmanager
def an_agent(cluster: Cluster, *options: str) -> Iterator[Agent]:
    command = [str(PIT), "mcp", *options]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=cluster.env, cwd=cluster.project.path, **pipes) as process:
        agent = Agent(process)
        begun = agent.ask("initialize", protocolVersion="2025-03-26", capabilities={}, clientInfo={})
        assert (begun["protocolVersion"], begun["serverInfo"]["name"]) == ("2025-03-26", "pit")
        agent.send("notifications/initialized")
        yield agent
    assert process.returncode == 0


def test_an_agent_runs_a_job_and_reads_its_log(cluster: Cluster) -> None:
    with an_agent(cluster, "--write") as agent:
        ran = agent.call("run", title="By an agent", command="echo as asked", options={"env": {"A": "1"}})
        number = ran["structuredContent"]["job"]
        assert cluster.wait(int(number))["outcome"] == "succeeded"
        assert "[worker 0] as asked" in agent.call("log", job=number)["structuredContent"]["log"]
        assert json.loads(agent.call("job", job=number)["content"][0]["text"])["outcome"] == "succeeded"
        for options in ({"directory": "/etc", "archive": True}, {"env": 7}):
            assert agent.call("run", title="no", command="true", options=options)["isError"] is True
        refused = agent.call("stop", job=number)
        assert (refused["isError"], refused["content"][0]["text"].splitlines()[0]) == (
            True,
            f"job {number} has ended already",
        )


def test_an_agent_that_may_only_read_cannot_write_and_survives_nonsense(cluster: Cluster) -> None:
    with an_agent(cluster) as agent:
        tools = {tool["name"]: tool for tool in agent.ask("tools/list")["tools"]}
        assert "status" in tools and not {"run", "stop"} & tools.keys()
        assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values())
        assert agent.call("run", title="no")["code"] == -32602
        assert agent.ask("resources/list")["code"] == -32601
        assert agent.call("log", tail="many")["isError"] is True
        assert agent.call("log", lines=3)["isError"] is True
        assert agent.call("job", job="999999")["isError"] is True
        assert len(agent.call("nodes")["structuredContent"]["nodes"]) > 0


def test_a_shell_completes_nodes_kinds_and_paths(cluster: Cluster) -> None:
    number = cluster.run("mkdir $KEEP_DIR/deep; touch $KEEP_DIR/deep/file")
    cluster.wait(number)
    nodes = {each["name"] for each in cluster.get("/nodes")["nodes"]}

    def complete(line: str) -> list[str]:
        env = {
            **cluster.env,
            "_PIT_COMPLETE": "bash_complete",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
        done = subprocess.run([str(PIT)], env=env, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return [each.partition(",")[2] for each in done.stdout.splitlines()]

    # It gives up after a moment, which may be too short on a busy machine.
    eventually(lambda: set(complete("pit show node:")) == nodes)
    eventually(lambda: "cpu" in complete("pit run x [2:c"))
    eventually(lambda: complete(f"pit ls {number} keep/d") == ["keep/deep/"])
    eventually(lambda: complete(f"pit cat {number}/keep/deep/") == [f"{number}/keep/deep/file"])
