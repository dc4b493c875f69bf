"""Clusters as `pit up` makes them, of which a program is killed, or the room runs out."""

from tests.support.clusters.fixtures import (  # noqa: F401
    cluster,
    project,
    shared_cluster,
    shared_remote,
    used_cluster,
)
