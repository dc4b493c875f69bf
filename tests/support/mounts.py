"""What tests need that mount something, and the two ways in which a node has the head's files."""

import pytest

from pit_protocol.transport import rclone
from tests.support.requirements import lack

BOUND, REMOTE = "bound", "remote"
IN_REMOTE = pytest.mark.parametrize("cluster", [REMOTE], indirect=True)


def need_mounts() -> None:
    """Skip the test where nothing can be mounted; in CI it fails."""
    if missing := rclone.why_unavailable():
        lack(missing)
