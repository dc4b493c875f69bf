"""Containers whose worker or engine is killed or frozen."""

from tests.docker.conftest import containers, engine, image, own, own_root, theirs, tree  # noqa: F401
from tests.worker.conftest import data_root, eventually, head  # noqa: F401
