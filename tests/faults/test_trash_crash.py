"""The head dies while files go to the trash, after the record or after the move: each is in one place."""

import hashlib

import pytest
import requests

from pit_server import failpoints
from tests.support.clusters.local import eventually
from tests.support.domain_files import PART
from tests.support.faults.cluster import Cluster

NAMES = [f"file{number}" for number in range(6)]


@pytest.fixture
def files(cluster: Cluster) -> None:
    for name in NAMES:
        body = name.encode()
        whole = {"part": PART, "offset": 0, "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        assert cluster.call("PUT", f"/files/home/{name}", params=whole, data=body).status_code == 201


def remove_all(cluster: Cluster) -> int:
    """Remove the files, and the rest after a crash; returns how often the head died."""
    crashes = 0
    for name in NAMES:
        try:
            assert cluster.call("DELETE", f"/files/home/{name}").status_code == 200
        except requests.ConnectionError:
            crashes += 1
            if cluster.head_is_gone:
                cluster.start_head()
            eventually(lambda: cluster.get("/trash") is not None)
    return crashes


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("point", ["trash-recorded", "trash-moved"])
def test_each_file_is_there_or_in_the_trash(cluster: Cluster, point: str) -> None:
    cluster.kill_head()
    cluster.start_head(**{failpoints.CRASH_AT: f"{point}:4"})
    assert remove_all(cluster) == 1
    there = [entry["name"] for entry in cluster.get("/files/home")["entries"]]
    trash = cluster.get("/trash")["trash"]
    assert sorted([*there, *(entry["name"] for entry in trash)]) == NAMES
    assert there == (["file3"] if point == "trash-recorded" else [])
    for entry in trash:
        assert cluster.call("POST", f"/trash/{entry['id']}/restore").status_code == 200
    assert [entry["name"] for entry in cluster.get("/files/home")["entries"]] == NAMES
