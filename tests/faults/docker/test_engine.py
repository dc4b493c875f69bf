"""The engine itself is killed or frozen, or gets the toolkit for GPUs."""

from pathlib import Path

import pytest

from pit_protocol.messages.beat import HOST, Trouble
from pit_protocol.states import KilledBy, ProcessState
from pit_worker.runtime.docker.engine_watch import AWAY, NO_TOOLKIT
from tests.docker.conftest import Containers
from tests.support.nvml.fake import FakeGpu, FakeNvml
from tests.support.servers.docker_engine import OwnEngine
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually

COUNT = 'i=0; until [ -e "$JOB_DIR/go" ]; do echo line $((i++)); sleep 0.01; done; echo last $i; exit 6'

FAST = {"PIT_WATCH_SPEEDUP": "20"}  # half a second of silence, and the engine counts as away


@pytest.mark.parametrize("own", [(("--live-restore",), False)], indirect=True)
@pytest.mark.threat("F13")
def test_with_live_restore_a_killed_engine_changes_nothing(
    head: StubHead, theirs: Containers, own: OwnEngine, eventually: Eventually, own_root: Path
):
    theirs.start()
    theirs.run(1, COUNT, network=HOST, name="")
    theirs.run(2, "until [ -e $HOME/go ]; do sleep 0.05; done; echo bye; exit 5", network=HOST, name="")
    eventually(lambda: "line 5\n" in head.log(1) and head.state(2) is ProcessState.RUNNING)
    own.kill()
    size = len(head.log(1))
    eventually(lambda: len(head.log(1)) > size + 100)
    (own_root / "home/ann/go").touch()  # it ends while there is no engine
    eventually(lambda: head.log(2) == "bye\n")
    own.start()
    theirs.client = own.client
    end = eventually(lambda: head.end(2))
    assert (end.exit_code, end.killed_by) == (5, None)
    assert head.state(1) is ProcessState.RUNNING
    (own_root / "jobs/1/go").touch()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.killed_by) == (6, None)
    lines = head.log(1).splitlines()
    assert lines == [f"line {i}" for i in range(len(lines) - 1)] + [f"last {len(lines) - 1}"]
    eventually(lambda: theirs.left() == [])


@pytest.mark.threat("F14")
def test_without_live_restore_the_restart_of_the_engine_is_the_reason(
    head: StubHead, theirs: Containers, own: OwnEngine, eventually: Eventually
):
    theirs.start()
    theirs.run(1, "echo ready; while :; do sleep 0.05; done", network=HOST, name="")
    eventually(lambda: head.log(1))
    own.kill()
    own.start()
    theirs.client = own.client
    end = eventually(lambda: head.end(1))
    assert end.killed_by is KilledBy.RUNTIME
    assert end.reason.startswith("the Docker daemon was restarted and killed it")
    eventually(lambda: theirs.left() == [])


@pytest.mark.threat("F15")
def test_a_frozen_engine_delays_neither_beats_nor_signals(
    head: StubHead, theirs: Containers, own: OwnEngine, eventually: Eventually
):
    theirs.start(**FAST)
    theirs.run(
        1, "trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done", network=HOST, name=""
    )
    eventually(lambda: head.log(1))
    own.freeze()
    theirs.run(2, "echo later", network=HOST, name="")
    eventually(lambda: head.state(2) is ProcessState.STARTING)
    head.stop(1)
    eventually(lambda: head.log(1).endswith("told\n"))
    beats = len(head.spoken)
    eventually(lambda: len(head.spoken) > beats + 2)
    eventually(lambda: head.spoken[-1].trouble == AWAY)
    own.thaw()
    eventually(lambda: head.spoken[-1].trouble == "")
    assert eventually(lambda: head.end(1)).exit_code == 3
    assert eventually(lambda: head.end(2)).exit_code == 0


def test_gpus_are_not_offered_while_the_engine_has_no_toolkit(
    head: StubHead, theirs: Containers, own: OwnEngine, eventually: Eventually, tmp_path: Path
):
    nvml = FakeNvml(tmp_path / "nvml", [FakeGpu("GPU-a"), FakeGpu("GPU-b", pci="0000:02:00")])
    all_of_them = (Trouble("GPU-a", NO_TOOLKIT), Trouble("GPU-b", NO_TOOLKIT))
    first = theirs.start(**FAST, **nvml.environ)
    eventually(lambda: head.spoken and head.spoken[-1].troubles == all_of_them)
    eventually(lambda: head.spoken[-1].trouble == "")  # the node itself has no trouble
    theirs.kill(first)
    # It is installed, but the engine was not restarted: only a try shows that.
    own.add_toolkit()
    theirs.start(**FAST, **nvml.environ)
    eventually(lambda: head.spoken[-1].troubles == ())
    theirs.run(1, "true", units=("GPU-a",), network=HOST, name="")
    end = eventually(lambda: head.end(1))
    assert end.reason == "the Docker engine of this node cannot give GPUs: it has no NVIDIA toolkit"
    eventually(lambda: head.spoken[-1].troubles == all_of_them)
    own.kill()
    own.start()
    theirs.client = own.client
    eventually(lambda: head.spoken[-1].troubles == ())
    theirs.run(2, "echo $NVIDIA_VISIBLE_DEVICES", units=("GPU-b",), network=HOST, name="")
    eventually(lambda: head.end(2))
    assert head.log(2) == "GPU-b\n"
    eventually(lambda: theirs.left() == [])


@pytest.mark.parametrize("own", [(("--live-restore",), False)], indirect=True)
@pytest.mark.threat("F15")
def test_an_engine_that_goes_away_is_reported_and_so_is_what_waits_for_it(
    head: StubHead, theirs: Containers, own: OwnEngine, eventually: Eventually
):
    theirs.start(**FAST)
    eventually(lambda: head.spoken and head.spoken[-1].trouble == "")
    own.kill()
    theirs.run(1, "echo begun", network=HOST, name="")
    waits = "pit: not started yet: the Docker engine does not answer; trying again\n"
    eventually(lambda: head.log(1) == waits)
    eventually(lambda: head.spoken[-1].trouble == AWAY)
    own.start()
    theirs.client = own.client
    eventually(lambda: head.end(1))
    assert head.log(1) == waits + "begun\n"
    eventually(lambda: head.spoken[-1].trouble == "")
