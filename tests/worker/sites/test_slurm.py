"""Slurm's commands: what they are given, and how their lines are read."""

from pathlib import Path

import pytest

from pit_protocol.messages.beat import Inventory, Resource
from pit_protocol.messages.site import AllocationState, GpuNeed, SeenAllocation, Wish
from pit_worker.sites.allocation import Allocation
from pit_worker.sites.slurm import TRANSIENT, batch_script, read_row, sbatch_options

WISH = Wish(
    "pit-c-7-1", 2, 4, 2048, (GpuNeed("a100", 4), GpuNeed("", 1)), 5400.0, 25.0, options={"qos": "high"}
)
A100 = tuple(Resource(f"GPU-{index}", "NVIDIA A100") for index in range(4))


def test_a_wish_becomes_arguments_of_sbatch() -> None:
    words = sbatch_options(WISH, Path("/home/lab/a b"))
    assert {
        "--job-name=pit-c-7-1", "--dependency=singleton", "--no-requeue", "--nodes=2", "--ntasks=2",
        "--cpus-per-task=4", "--mem=2048M", "--gres=gpu:a100:4,gpu:1", "--time=90", "--signal=TERM@25",
        "--qos=high", "--output=/home/lab/a b/output.txt",
    } <= set(words)  # fmt: skip
    script = batch_script(WISH, ["python", "-m", "pit_worker", "pilot"], Path("/home/lab/a b"))
    assert script.endswith(
        "--overlap --kill-on-bad-exit=1 --export=ALL python -m pit_worker pilot '/home/lab/a b'\n"
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            ("17", "pit-c-7-1", "PENDING", "Priority", "1970-01-02T00:00:00", "N/A", ""),
            SeenAllocation("pit-c-7-1", "17", AllocationState.PENDING, "PENDING", "Priority", 86400.0),
        ),
        (
            ("17", "pit-c-7-1", "RUNNING", "None", "1970-01-01T00:00:00", "1970-01-02T00:00:00", "n[1-2]"),
            SeenAllocation(
                "pit-c-7-1", "17", AllocationState.RUNNING, "RUNNING", ends_at=86400.0, hosts="n[1-2]"
            ),
        ),
        (
            ("17", "pit-c-7-1", "NODE_FAIL", "None", "N/A", "N/A", "n1"),
            SeenAllocation("pit-c-7-1", "17", AllocationState.ENDED, "NODE_FAIL", hosts="n1"),
        ),
    ],
)
def test_a_line_of_squeue_is_read(row: tuple[str, ...], expected: SeenAllocation) -> None:
    assert read_row(row) == expected


def test_an_error_of_the_controller_is_no_refusal() -> None:
    assert TRANSIENT.search("sbatch: error: Unable to contact slurm controller (connect failure)")
    assert not TRANSIENT.search("allocation failure: Requested node configuration is not available")


@pytest.mark.parametrize(
    ("visible", "found", "expected"),
    [
        ("2,3", A100, A100[2:]),
        ("GPU-1", A100, A100[1:2]),
        ("0,1", A100[2:], A100[2:]),  # the site hides the others, and numbers count from 0
        ("", A100, ()),
        ("NoDevFiles", A100, ()),
        ("0,1", (), (Resource("0", "gpu"), Resource("1", "gpu"))),  # no driver that pit knows
    ],
)
def test_a_pilot_has_what_its_allocation_has(
    visible: str, found: tuple[Resource, ...], expected: tuple[Resource, ...]
) -> None:
    environ = {
        "SLURM_JOB_ID": "17", "SLURM_PROCID": "1", "SLURMD_NODENAME": "n17", "SLURM_CPUS_ON_NODE": "4",
        "SLURM_MEM_PER_CPU": "100", "CUDA_VISIBLE_DEVICES": visible,
    }  # fmt: skip
    allocation = Allocation.of(environ)
    assert (allocation.id, allocation.index, allocation.host) == ("17", 1, "n17")
    assert allocation.inventory(Inventory(64, 1000, found)) == Inventory(4, 400, expected)
