"""Making SHARED_DIR read-only even for root, in a mount namespace of the worker's own."""

import logging
from pathlib import Path

from pit_worker import mount_namespace

log = logging.getLogger(__name__)


def protect(shared: Path) -> bool:
    """Make `shared` read-only for children of this thread; False if only file modes protect it.

    The thread gets a mount namespace of its own, so nobody else on the machine sees the change;
    mounts made outside later are still visible.
    """
    if not shared.is_dir():
        log.warning("there is no %s; nothing to make read-only", shared)
        return False
    try:
        mount_namespace.enter()
        mount_namespace.bind(shared, shared, read_only=True)
    except OSError as error:
        log.warning("%s is protected by file modes only: no mount namespace (%s)", shared, error.strerror)
        return False
    log.info("%s is mounted read-only for processes", shared)
    return True
