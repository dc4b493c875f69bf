"""Clusters for tests: one each, or one for all that leave it as it was."""

from tests.support.clusters.fixtures import (  # noqa: F401
    cluster,
    project,
    shared_cluster,
    shared_remote,
    used_cluster,
)
