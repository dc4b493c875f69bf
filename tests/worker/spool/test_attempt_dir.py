"""The directory of an attempt is deleted whatever its job has left in it."""

from pathlib import Path

from pit_worker.spool.attempt_dir import AttemptDir
from tests.support.deep_directory import make_deep


def test_a_very_deep_directory_of_a_job_is_deleted_with_it(tmp_path: Path) -> None:
    place = AttemptDir(tmp_path / "1-1")
    place.make()
    place.tree.mkdir()
    make_deep(place.tree / "deep")
    make_deep(place.cache)
    place.clear()
    assert list(tmp_path.iterdir()) == []
