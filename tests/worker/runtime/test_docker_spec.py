"""From a spec to a container: the arguments for docker-py."""

import os
from pathlib import Path, PurePosixPath

import pytest
from msgspec.structs import replace

import pit_worker
from pit_protocol.messages.beat import HOST, PRIVATE, Account, Container, ProcessSpec, Pull, Venv
from pit_protocol.variables import OWN
from pit_worker.runtime.binds import Bind, check_inside, find_binds, targets
from pit_worker.runtime.docker.engine import Image
from pit_worker.runtime.docker.spec import ENTER, arguments, environment
from pit_worker.spool.entry import Entry, Intent
from pit_worker.spool.environment import StartRefused
from pit_worker.venv.cache import PRELUDE
from tests.support.stubs.worker_head import a_spec

CONTAINER = Container("lab/torch:2", Pull.MISSING, PRIVATE, "p0", shm_mib=64, pids=200)
OF_IMAGE = (
    "PATH=/opt/bin",
    "LANG=de",
    "LD_PRELOAD=/x.so",
    "NVIDIA_VISIBLE_DEVICES=all",
    "NVIDIA_REQUIRE_CUDA=cuda>=9",
    "LD_LIBRARY_PATH=/opt/lib",
)
IMAGE = Image("sha256:abc", "lab/torch@sha256:def", env=OF_IMAGE)
BIND = Bind(Path("/data/shared"), PurePosixPath("/pit/shared"), True, (1, 2))
MIB = 1024 * 1024


def a_container_spec(**changes: object) -> ProcessSpec:
    spec = replace(
        a_spec("true", RANK="0", NVIDIA_VISIBLE_DEVICES="all"),
        account=Account(2000, 2001, (3000, 3001)),
        container=CONTAINER,
        cpus=0.5,
        memory_mib=100,
    )
    return replace(spec, **changes)  # type: ignore[arg-type]


def an_entry(spec: ProcessSpec) -> Entry:
    return Entry(Path("/spool/7-2"), Intent(7, 2, "lab", "boot", "/data", spec))


def told(spec: ProcessSpec) -> dict[str, object]:
    return arguments(an_entry(spec), spec, IMAGE, [BIND])


@pytest.mark.threat("S36")
def test_a_container_has_these_options_and_no_others():
    spec = a_container_spec()
    given = told(spec)
    environment, mounts, health = (given.pop(name) for name in ("environment", "mounts", "healthcheck"))
    assert given == {
        "image": "sha256:abc",
        "name": "pit-lab-7-2",
        "labels": {
            "pit.cluster": "lab",
            "pit.spool": "/spool",
            "pit.job": "1",
            "pit.process": "7",
            "pit.attempt": "2",
            "pit.boot": "boot",
        },
        "entrypoint": ["/bin/sh", "-c", ENTER, "pit"],
        "command": ["/pit/command"],
        "working_dir": "/pit/job/src",
        "user": "2000:2001",
        "group_add": ["3000", "3001"],
        "pids_limit": 200,
        "shm_size": 64 * MIB,
        "mem_limit": 100 * MIB,
        "memswap_limit": 100 * MIB,
        "nano_cpus": 500_000_000,
        "init": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "privileged": False,
        "ipc_mode": "private",
        "log_config": {"Type": "none", "Config": {}},
        "restart_policy": {"Name": "no"},
        "detach": True,
        "hostname": "p0",
        "network": "pit-lab-1-2",
        "networking_config": {"pit-lab-1-2": {"Aliases": ["p0"]}},
    }
    assert isinstance(health, dict) and health["Test"] == ["NONE"]
    assert environment == [
        "LD_PRELOAD",
        "NVIDIA_REQUIRE_CUDA",
        "HOME=/pit/home",
        "RANK=0",
        "JOB_DIR=/pit/job",
        "SRC_DIR=/pit/job/src",
        "KEEP_DIR=/pit/job/keep",
        "RESULT_FILE=/pit/job/result",
        "USER_DIR=/pit/home",
        "SHARED_DIR=/pit/shared",
        "HOSTFILE=/pit/hostfile",
        "PIT_COOKIE=lab-7-2",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES=",
        "NVIDIA_VISIBLE_DEVICES=void",
        "PYTHONUNBUFFERED=1",
    ]
    assert mounts == [
        {"Target": "/pit/shared", "Source": "/data/shared", "Type": "bind", "ReadOnly": True},
        {"Target": "/pit/output", "Source": "/spool/7-2/pipe", "Type": "bind", "ReadOnly": False},
        {"Target": "/pit/hostfile", "Source": "/spool/7-2/hostfile", "Type": "bind", "ReadOnly": True},
        {"Target": "/pit/command", "Source": "/spool/7-2/command", "Type": "bind", "ReadOnly": True},
    ]


def test_a_python_environment_is_built_in_a_directory_of_the_user_for_this_image():
    given = told(a_container_spec(venv=Venv("uv.lock", "3.12", "ann")))
    mounts, environment = given["mounts"], given["environment"]
    assert isinstance(mounts, list) and isinstance(environment, list)
    prelude = {"Target": "/pit/venv.py", "Source": str(PRELUDE), "Type": "bind", "ReadOnly": True}
    assert prelude in mounts
    assert [text for text in environment if text.startswith("PIT_VENV_")] == [
        "PIT_VENV_PRELUDE=/pit/venv.py",
        "PIT_VENV_FILE=uv.lock",
        "PIT_VENV_PYTHON=3.12",
        "PIT_VENV_DIR=/pit/venvs",
        "PIT_VENV_IMAGE=sha256:abc",
    ]


def test_a_users_variables_are_a_file_and_no_part_of_the_containers_own():
    given = told(a_container_spec(variables={"TOKEN": "S3CRET", "LD_PRELOAD": "/S3CRET.so"}))
    mounted = {"Target": "/pit/variables", "Source": "/spool/7-2/variables", "Type": "bind", "ReadOnly": True}
    mounts = given["mounts"]
    assert isinstance(mounts, list) and mounted in mounts
    assert "S3CRET" not in str(given)


def test_a_user_cannot_override_the_variables_of_a_container():
    for spec in (a_container_spec(), a_container_spec(units=("GPU-a",))):
        names = [text.split("=")[0] for text in environment(an_entry(spec), spec, Image("sha256:abc", ""))]
        assert [name for name in names if not OWN.fullmatch(name)] == ["LANG", "PYTHONUNBUFFERED"]


def test_python_does_not_buffer_its_output_unless_the_image_says_otherwise():
    spec = a_container_spec()
    assert "PYTHONUNBUFFERED=1" in environment(an_entry(spec), spec, IMAGE)
    buffered = Image("sha256:abc", "", env=("PYTHONUNBUFFERED=",))
    assert "PYTHONUNBUFFERED=1" not in environment(an_entry(spec), spec, buffered)


def test_gpus_are_given_by_a_device_request():
    given = told(a_container_spec(units=("GPU-a", "GPU-b")))
    assert given["device_requests"] == [
        {"Driver": "", "Count": 0, "DeviceIDs": ["GPU-a", "GPU-b"], "Capabilities": [["gpu"]], "Options": {}}
    ]
    environment = given["environment"]
    assert isinstance(environment, list)
    assert "NVIDIA_DRIVER_CAPABILITIES=compute,utility" in environment
    # The image's value is unset, and the engine sets the one of the device request.
    assert [text for text in environment if "VISIBLE" in text] == [
        "NVIDIA_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES=0,1",
    ]


def test_without_account_it_runs_as_the_workers_own_user():
    given = told(a_container_spec(account=None))
    assert (given["user"], given["group_add"]) == (f"{os.geteuid()}:{os.getegid()}", [])


def test_the_nodes_network_has_neither_alias_nor_host_name():
    given = told(a_container_spec(container=replace(CONTAINER, network=HOST, name="")))
    assert given["network_mode"] == "host"
    assert not {"network", "networking_config", "hostname"} & set(given)


def test_an_overlay_is_joined_under_the_name():
    given = told(a_container_spec(container=replace(CONTAINER, network="ov1")))
    assert (given["network"], given["networking_config"]) == ("ov1", {"ov1": {"Aliases": ["p0"]}})


def test_the_projects_script_is_not_in_the_spool():
    given = told(a_container_spec(command=None))
    assert given["command"] == ["/pit/job/src/.compute"]
    assert "/pit/command" not in str(given["mounts"])


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ({"USER_DIR": "/etc"}, "USER_DIR leads out of the data root: /etc"),
        ({"USER_DIR": "home/../../etc"}, "USER_DIR leads out of the data root: home/../../etc"),
        ({"SRC_DIR": "home/ann"}, "SRC_DIR is not below JOB_DIR: home/ann"),
        ({"DOCKER_DIR": "run"}, "DOCKER_DIR has no place where the process could see it"),
    ],
)
def test_paths_that_containers_do_not_have_are_refused(paths: dict[str, str], text: str):
    spec = a_container_spec()
    with pytest.raises(StartRefused, match=f"^{text}$"):
        targets(replace(spec, paths={**spec.paths, **paths}))


def test_a_group_is_mounted_by_its_name():
    spec = a_container_spec()
    spec = replace(spec, paths={**spec.paths, "LAB_GROUP_DIR": "groups/lab"})
    assert targets(spec)["LAB_GROUP_DIR"] == PurePosixPath("/pit/groups/lab")


@pytest.mark.parametrize("link", ["home", "home/ann", "jobs", "jobs/1"])
def test_no_part_of_a_mounted_directory_may_be_a_link(data_root: Path, link: str):
    spec = a_container_spec()
    assert len(find_binds(data_root, spec)) == 3
    (data_root / link).rename(data_root / "elsewhere")
    (data_root / link).symlink_to(data_root / "elsewhere")
    with pytest.raises(StartRefused, match="is not a directory, or leads through a link"):
        find_binds(data_root, spec)


def test_a_mount_is_identified_by_its_inode(data_root: Path):
    (bind,) = (b for b in find_binds(data_root, a_container_spec()) if b.target.name == "home")
    stat = (data_root / "home/ann").stat()
    assert bind == Bind(data_root / "home/ann", PurePosixPath("/pit/home"), False, (stat.st_dev, stat.st_ino))


@pytest.mark.threat("S52")
def test_a_directory_replaced_between_check_and_mount_is_refused(tmp_path: Path):
    stat = tmp_path.stat()
    bind = Bind(tmp_path, PurePosixPath(tmp_path), False, (stat.st_dev, stat.st_ino))
    check_inside(os.getpid(), (bind,))
    with pytest.raises(StartRefused, match="was replaced while it was being mounted"):
        check_inside(os.getpid(), (Bind(tmp_path, bind.target, False, (0, 0)),))


@pytest.mark.threat("S55")
def test_nothing_is_copied_into_or_out_of_a_container() -> None:
    """The engine follows links of a running container when it copies (CVE-2018-15664)."""
    sources = {file: file.read_text() for file in Path(pit_worker.__file__).parent.rglob("*.py")}
    assert any("containers.create(" in text for text in sources.values())
    calls = ("get_archive", "put_archive", '"cp"', "/archive")
    assert [(file.name, call) for file, text in sources.items() for call in calls if call in text] == []
