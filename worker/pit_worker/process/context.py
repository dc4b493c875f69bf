"""What the stages of a process's life on this node have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pit_protocol.system.failpoints import Failpoints
from pit_worker.data.staging import Staging
from pit_worker.health import NodeHealth
from pit_worker.loop import Loop
from pit_worker.process.inotify import Inotify
from pit_worker.runtime.base import Runtime
from pit_worker.timing import Timing

# Called when the GPUs are idle, with the fault that one of them has, or an empty text.
GpusReleased = Callable[[str], None]


@dataclass(frozen=True)
class Context:
    loop: Loop
    runtime: Runtime
    staging: Staging
    inotify: Inotify
    boot_id: str
    changed: Callable[[], None]  # there is something new to report
    release_gpus: Callable[[Sequence[str], GpusReleased], None]  # calls back when they can be given to others
    health: NodeHealth
    failpoints: Failpoints
    timing: Timing
