"""What tests need that mount something, and the two ways in which a node has the head's files."""

import pytest

from pit_protocol import rclone
from tests.docker.lack import lack

BOUND, REMOTE = "bound", "remote"
IN_BOTH = pytest.mark.parametrize("cluster", [BOUND, REMOTE], indirect=True)
IN_REMOTE = pytest.mark.parametrize("cluster", [REMOTE], indirect=True)


def need_mounts() -> None:
    """Skip the test where nothing can be mounted; in CI it fails."""
    if missing := rclone.lack():
        lack(missing)
