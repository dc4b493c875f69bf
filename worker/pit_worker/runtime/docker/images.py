"""Images: pulled once for all processes that wait; the least recently used are removed to save disk space."""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pit_protocol.atomic_file import write_atomic
from pit_protocol.messages.beat import Pull
from pit_worker.runtime.docker import image_pull
from pit_worker.runtime.docker.engine import Engine, EngineAway, EngineRefused, Image
from pit_worker.spool.entry import Entry
from pit_worker.spool.environment import NodeFault, StartRefused

TRIES = 3
PAUSE_S = 2.0  # before the second try; twice as long before the third
GIB = 1024**3
FILE_NAME = "images"

log = logging.getLogger(__name__)

Then = Callable[[Image | StartRefused | OSError], None]


@dataclass
class PendingPull:
    """A pull under way, and the processes that wait for it."""

    waiting: list[tuple[Entry, Then]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


class Images:
    """The images that pit uses on this node; any thread may call."""

    def __init__(self, engine: Engine, spool: Path, cache_gib: int) -> None:
        self._engine = engine
        self._uses = ImageUses(spool / FILE_NAME)
        self._most = cache_gib * GIB
        self._pulls: dict[str, PendingPull] = {}
        self._lock = threading.Lock()

    def get(self, name: str, pull: Pull, entry: Entry, then: Then) -> None:
        """Call `then` with the image: at once if it is here, else when it has been pulled."""
        image = None if pull is Pull.ALWAYS else self._engine.get_image(name)
        if image:
            self._uses.note(image.id, time.time())
            then(image)
        elif pull is Pull.NEVER:
            then(StartRefused(f"this node has no image {name}, and must not pull it"))
        else:
            self._wait_for_pull(name, entry, then)

    def _wait_for_pull(self, name: str, entry: Entry, then: Then) -> None:
        with self._lock:
            is_first = name not in self._pulls
            pending = self._pulls.setdefault(name, PendingPull())
            pending.waiting.append((entry, then))
            for line in pending.lines[-1:] if not is_first else ():
                entry.write_line(f"pull: {line}")
        if is_first:
            threading.Thread(target=self._run_pull, args=(name,), name="pull", daemon=True).start()

    def _run_pull(self, name: str) -> None:
        try:
            outcome: Image | StartRefused | OSError = self._pull_with_retries(name)
        except (StartRefused, OSError) as error:
            outcome = error
        except Exception as error:
            log.exception("the pull of %s: internal worker error", name)
            outcome = StartRefused(f"internal worker error: {error}")
        with self._lock:
            waiting = self._pulls.pop(name).waiting
        for _, then in waiting:
            then(outcome)
        if isinstance(outcome, Image):
            self._evict(outcome.id)

    def _pull_with_retries(self, name: str) -> Image:
        """Pull, and try again after network errors; raises StartRefused."""
        for count in range(1, TRIES + 1):
            try:
                return self._pull(name)
            except (EngineRefused, EngineAway) as error:
                text = str(error)
                if count == TRIES or not image_pull.is_temporary(text):
                    raise refusal(name, text) from error
                self._write_line(name, f"{image_pull.explain(name, text)}; trying again")
                time.sleep(PAUSE_S * count)
        raise AssertionError

    def _pull(self, name: str) -> Image:
        progress = image_pull.Progress()
        self._write_line(name, name)
        for progress_event in self._engine.pull(name):
            if "error" in progress_event:
                raise EngineRefused(progress_event["error"])
            if line := progress.take(progress_event, time.monotonic()):
                self._write_line(name, line)
        image = self._engine.get_image(name)
        if image is None:
            raise EngineRefused(f"{name} not found after its pull")
        self._write_line(name, f"done, {image.digest}")
        self._uses.note(image.id, time.time(), name=name, size=image.size)
        return image

    def _write_line(self, name: str, line: str) -> None:
        with self._lock:
            pending = self._pulls[name]
            pending.lines.append(line)
            for entry, _ in pending.waiting:
                entry.write_line(f"pull: {line}")

    def _evict(self, newest: str) -> None:
        """Remove the least recently used, until the rest fits; images of containers stay."""
        for id_, name in self._uses.list_beyond(self._most, newest) if self._most else ():
            try:
                image = self._engine.get_image(id_)
                if image:
                    # By its name, so that the image stays if someone gave it another one.
                    self._engine.remove_image(name if name in _names(image) else id_)
                    log.info("removed the image %s to free disk space", name)
            except (EngineRefused, EngineAway) as error:
                log.info("the image %s stays: %s", name, error)
                continue
            self._uses.forget(id_)


def refusal(image: str, text: str) -> StartRefused:
    """Why a process gets no image, from what engine or registry say."""
    kind = NodeFault if image_pull.is_node_fault(text) else StartRefused
    return kind(image_pull.explain(image, text))


class ImageUses:
    """Which images pit pulled, and when each was last used: stored in a file that is written atomically."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}
        try:
            self._known = dict(json.loads(file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            # Only images in the file are ours to remove: without the file, none is.
            self._known = {}

    def note(self, id_: str, at: float, name: str = "", size: int = 0) -> None:
        """Note that it is used now; with a name, that it was pulled now."""
        with self._lock:
            if name:
                self._known[id_] = {"name": name, "size": size, "at": at}
            elif id_ in self._known:
                self._known[id_]["at"] = at
            else:
                return
            self._save()

    def forget(self, id_: str) -> None:
        with self._lock:
            self._known.pop(id_, None)
            self._save()

    def list_beyond(self, most: int, newest: str) -> list[tuple[str, str]]:
        """Ids and names of the least recently used, so many that the others fit into `most` bytes."""
        with self._lock:
            total = sum(int(each["size"]) for each in self._known.values())
            beyond = []
            for id_, each in sorted(self._known.items(), key=lambda item: float(item[1]["at"])):
                if total <= most:
                    break
                if id_ != newest:
                    beyond.append((id_, str(each["name"])))
                    total -= int(each["size"])
            return beyond

    def _save(self) -> None:
        try:
            write_atomic(self._file, json.dumps(self._known))
        except OSError as error:
            log.warning("the use of images cannot be saved: %s", error)


def _names(image: Image) -> tuple[str, ...]:
    """All its names, also without the default tag."""
    return (*image.tags, *(tag.removesuffix(":latest") for tag in image.tags))
