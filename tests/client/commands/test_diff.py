"""`pit diff`: counts, and binary files."""

import json
from typing import Any

import pytest

from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead

CHANGES: list[dict[str, Any]] = [
    {"path": "model.py", "added": 12, "removed": 3},
    {"path": "data.bin", "added": None, "removed": None},
]
STAT = {"files": 2, "added": 12, "removed": 3, "changes": CHANGES}


@pytest.fixture
def job(connected: StubHead) -> StubHead:
    connected.add_job(12)
    connected.bodies["/diff"] = b"a patch\n"
    return connected


@pytest.mark.parametrize(("option", "asked"), [((), "no"), (("--binary",), "yes")])
def test_binary_files_are_asked_for_with_an_option(
    job: StubHead, pit_command: Pit, option: tuple[str, ...], asked: str
) -> None:
    assert pit_command("diff", "12", *option).stdout == "a patch\n"
    assert job.called("/jobs/12/diff")[0].query["binary"] == asked


def test_stat_counts_the_lines_of_each_file(job: StubHead, pit_command: Pit) -> None:
    job.bodies["/diff"] = json.dumps(STAT).encode()
    assert pit_command("diff", "12", "--stat").stdout.splitlines() == [
        " ADDED  REMOVED  FILE",
        "    12        3  model.py",
        "binary           data.bin",
        "2 files, 12 lines added, 3 removed",
    ]
    assert json.loads(pit_command("diff", "12", "--stat", "--json").stdout)["stat"] == STAT
