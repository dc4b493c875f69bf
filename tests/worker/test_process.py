"""What a worker knows of one process."""

from pathlib import Path

from pit_worker.entry import Entry, Intent
from pit_worker.process import Process
from tests.worker.stub_head import a_spec


def test_one_whose_data_is_on_its_way_to_the_head_is_not_started_again(tmp_path: Path) -> None:
    intent = Intent(1, 1, "cluster", "boot", str(tmp_path), a_spec("true"))
    process = Process(Entry(tmp_path / "1-1", intent))
    assert process.is_waiting
    process.is_delivering = True
    assert not process.is_waiting
