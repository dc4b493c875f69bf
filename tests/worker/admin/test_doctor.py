"""What `pit-worker doctor` finds and prints."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pit_protocol.transport import rclone
from pit_worker.admin.doctor import Mark, check_disk, check_head, check_machine
from pit_worker.admin.doctor_docker import rate_gpus, rate_info, rate_versions
from pit_worker.runtime.docker.engine_facts import has_toolkit
from pit_worker.settings import Settings
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import PYTHON_ENVIRON, Eventually, Workers

GOOD_INFO = {"LiveRestoreEnabled": True, "MemoryLimit": True, "PidsLimit": True, "CpuCfsQuota": True}


def a_version(engine: str, runc: str) -> dict[str, object]:
    return {"Version": engine, "Components": [{"Name": "runc", "Version": runc}]}


@pytest.fixture
def settings(workers: Workers) -> Settings:
    return Settings(workers.head.url, workers.token_file, workers.spool)


def test_a_head_that_answers_is_good_and_no_worker_is_displaced(head: StubHead, settings: Settings):
    head.epoch = 5
    found = list(check_head(settings, 0.0))
    assert (found[0].mark, found[0].check) == (Mark.GOOD, "head")
    assert (found[1].mark, found[1].check) == (Mark.BAD, "clock")
    assert head.epoch == 5


def test_a_refused_token_and_a_head_that_is_away_are_bad(head: StubHead, settings: Settings):
    settings.token_file.write_text("pit_n1_wrong\n")
    (found,) = check_head(settings, 0.0)
    assert found.mark is Mark.BAD and "refuses this node's token" in found.text
    (found,) = check_head(Settings("http://127.0.0.1:1", settings.token_file, settings.spool), 0.0)
    assert found.mark is Mark.BAD and "connection refused" in found.text


def test_the_data_root_of_the_last_session_must_exist(settings: Settings, tmp_path: Path):
    settings.spool.mkdir()
    for text, mark in (("", Mark.DOUBTFUL), (str(tmp_path), Mark.GOOD), ("/nowhere", Mark.BAD)):
        (settings.spool / "data_root").write_text(text)
        assert {f.check: f.mark for f in check_machine(settings)}["data root"] is mark


def test_a_node_without_the_heads_files_must_be_able_to_mount(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    remote = replace(settings, data_root="remote")
    assert {f.check: f.mark for f in check_machine(remote)}["data root"] is Mark.GOOD
    monkeypatch.setenv("PATH", "/nowhere")
    for chosen, mark in ((remote, Mark.BAD), (settings, Mark.DOUBTFUL)):
        (found,) = (finding for finding in check_machine(chosen) if finding.check == "mounts")
        assert (found.mark, found.text) == (mark, "rclone and fuse3 are not installed here")


def test_an_account_that_may_not_open_the_fuse_device_cannot_mount(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/found")
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    monkeypatch.setattr(rclone, "FUSE_DEVICE", Path("/dev/null"))
    assert rclone.why_unavailable().startswith("this account may not open /dev/null: `chmod 666 /dev/null`")


def test_a_worker_that_cannot_mount_says_so_and_does_not_start(workers: Workers):
    worker = workers.start(PIT_WORKER_DATA_ROOT="remote", PATH="/nowhere")
    assert worker.wait(120) == 1
    assert "pit-worker: data_root is remote, and rclone and fuse3 are not installed here" in workers.log()


@pytest.mark.parametrize(
    ("version", "marks"),
    [
        (a_version("27.1.0", "1.2.8"), [Mark.GOOD, Mark.GOOD]),
        (a_version("20.10.24+dfsg1", "1.1.5+ds1"), [Mark.GOOD, Mark.DOUBTFUL]),
        (a_version("19.03.1", "1.1.12"), [Mark.BAD, Mark.GOOD]),
        ({"Version": "27.1.0"}, [Mark.GOOD, Mark.DOUBTFUL]),
    ],
)
@pytest.mark.threat("S62")
def test_versions_with_known_vulnerabilities_are_reported(version: dict[str, object], marks: list[Mark]):
    assert [finding.mark for finding in rate_versions(version)] == marks


def test_an_old_runc_may_have_been_fixed_by_its_distribution():
    _, runc = rate_versions(a_version("20.10.24", "1.1.5"))
    assert "a distribution may have fixed an older version" in runc.hint


@pytest.mark.threat("F14")
def test_missing_live_restore_and_controllers_are_reported():
    assert [f.mark for f in rate_info(GOOD_INFO)] == [Mark.GOOD, Mark.GOOD]
    off, cgroup = rate_info({**GOOD_INFO, "LiveRestoreEnabled": False, "PidsLimit": False})
    assert (off.mark, cgroup.mark) == (Mark.BAD, Mark.BAD)
    assert "live-restore" in off.hint and "without pids" in cgroup.text
    swarm = {**GOOD_INFO, "LiveRestoreEnabled": False, "Swarm": {"LocalNodeState": "active"}}
    assert next(rate_info(swarm)).mark is Mark.DOUBTFUL


def test_gpus_need_the_toolkit(tmp_path: Path, eventually: Eventually):
    with subprocess.Popen(["sleep", "30"], env={"PATH": f"/nowhere:{tmp_path}:/bin"}) as engine:
        eventually(Path(f"/proc/{engine.pid}/environ").read_bytes)  # empty for a moment after its start
        finding = rate_gpus(has_toolkit({}, engine.pid))
        assert (finding.mark, finding.text) == (
            Mark.BAD, "there are GPUs, but no NVIDIA container toolkit",
        )  # fmt: skip
        assert finding.hint.startswith("install nvidia-container-toolkit, then restart the engine")
        hook = tmp_path / "nvidia-container-runtime-hook"
        hook.touch(mode=0o755)
        assert rate_gpus(has_toolkit({}, engine.pid)).mark is Mark.GOOD
        engine.kill()
    assert rate_gpus(has_toolkit({}, None)).mark is Mark.DOUBTFUL
    assert rate_gpus(has_toolkit({"Runtimes": {"nvidia": {}}}, None)).mark is Mark.GOOD
    listed = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=0"}]}
    assert rate_gpus(has_toolkit(listed, None)).mark is Mark.GOOD


def test_the_disk_of_a_missing_directory_is_that_of_its_parent(tmp_path: Path):
    assert "GiB free at" in check_disk("spool", tmp_path / "not/there").text


def test_the_command_prints_each_finding_and_exits_with_its_code(head: StubHead, workers: Workers):
    head.epoch = 5
    own = {"PIT_WORKER_URL": head.url, "PIT_WORKER_TOKEN_FILE": str(workers.token_file),
           "PIT_WORKER_SPOOL": str(workers.spool), "DOCKER_HOST": "unix:///nowhere/docker.sock"}  # fmt: skip
    told = run_doctor(**own)
    assert "! engine: no Docker engine answers\n    install Docker" in told.stdout
    assert told.returncode == 0
    told = run_doctor("--json", PIT_WORKER_RUNTIME="docker", **own)
    assert told.returncode == 1
    findings = {each["check"]: each["mark"] for each in json.loads(told.stdout)}
    assert (findings["head"], findings["engine"]) == ("good", "bad")


def run_doctor(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pit_worker", "doctor", *arguments],
        env={**os.environ, **PYTHON_ENVIRON, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
