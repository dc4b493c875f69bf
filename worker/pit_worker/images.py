"""Images: fetched once for all who wait, remembered by use, and removed when they fill the disk."""

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pit_protocol.beat import Pull
from pit_worker import pulls
from pit_worker.engine import Engine, EngineAway, EngineRefused, Image
from pit_worker.entry import Entry, write_whole
from pit_worker.environment import StartRefused

TRIES = 3
PAUSE_S = 2.0  # before the second try; twice as long before the third
GIB = 1024**3
FILE_NAME = "images"

log = logging.getLogger(__name__)

Then = Callable[[Image | StartRefused | OSError], None]


@dataclass
class Fetch:
    """A pull under way, and who waits for it."""

    waiting: list[tuple[Entry, Then]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class Images:
    """The node's images as far as pit is concerned; any thread may ask."""

    def __init__(self, engine: Engine, spool: Path, cache_gib: int) -> None:
        self._engine = engine
        self._uses = Uses(spool / FILE_NAME)
        self._most = cache_gib * GIB
        self._fetches: dict[str, Fetch] = {}
        self._lock = threading.Lock()

    def get(self, name: str, pull: Pull, entry: Entry, then: Then) -> None:
        """Tell `then` the image: at once if it is here, else when it has come."""
        image = None if pull is Pull.ALWAYS else self._engine.get_image(name)
        if image:
            self._uses.note(image.id, time.time())
            then(image)
        elif pull is Pull.NEVER:
            then(StartRefused(f"this node has no image {name}, and is not to pull it"))
        else:
            self._join(name, entry, then)

    def _join(self, name: str, entry: Entry, then: Then) -> None:
        with self._lock:
            is_first = name not in self._fetches
            fetch = self._fetches.setdefault(name, Fetch())
            fetch.waiting.append((entry, then))
            for line in fetch.said[-1:] if not is_first else ():
                entry.say(f"pull: {line}")
        if is_first:
            threading.Thread(target=self._fetch, args=(name,), name="pull", daemon=True).start()

    def _fetch(self, name: str) -> None:
        try:
            outcome: Image | StartRefused | OSError = self._insist(name)
        except (StartRefused, OSError) as error:
            outcome = error
        except Exception as error:
            log.exception("the pull of %s: a mistake of the worker's own", name)
            outcome = StartRefused(f"a mistake of the worker's own: {error}")
        with self._lock:
            waiting = self._fetches.pop(name).waiting
        for _, then in waiting:
            then(outcome)
        if isinstance(outcome, Image):
            self._make_room(outcome.id)

    def _insist(self, name: str) -> Image:
        """Pull, with more than one try where the network is to blame; raises StartRefused."""
        for count in range(1, TRIES + 1):
            try:
                return self._pull(name)
            except (EngineRefused, EngineAway) as error:
                text = str(error)
                if count == TRIES or not pulls.is_passing(text):
                    raise StartRefused(pulls.explain(name, text)) from error
                self._say(name, f"{pulls.explain(name, text)}; trying again")
                time.sleep(PAUSE_S * count)
        raise AssertionError

    def _pull(self, name: str) -> Image:
        progress = pulls.Progress()
        self._say(name, name)
        for told in self._engine.pull(name):
            if "error" in told:
                raise EngineRefused(told["error"])
            if line := progress.take(told, time.monotonic()):
                self._say(name, line)
        image = self._engine.get_image(name)
        if image is None:
            raise EngineRefused(f"{name} not found after its pull")
        self._say(name, f"done, {image.digest}")
        self._uses.note(image.id, time.time(), name=name, size=image.size)
        return image

    def _say(self, name: str, line: str) -> None:
        with self._lock:
            fetch = self._fetches[name]
            fetch.said.append(line)
            for entry, _ in fetch.waiting:
                entry.say(f"pull: {line}")

    def _make_room(self, newest: str) -> None:
        """Remove what was not used for longest, until the rest fits; what a container has stays."""
        for id_, name in self._uses.list_beyond(self._most, newest) if self._most else ():
            try:
                image = self._engine.get_image(id_)
                if image:
                    # By its name, so that it stays if somebody gave it another one.
                    self._engine.remove_image(name if name in _names(image) else id_)
                    log.info("removed the image %s, to make room", name)
            except (EngineRefused, EngineAway) as error:
                log.info("the image %s stays: %s", name, error)
                continue
            self._uses.forget(id_)


class Uses:
    """Which images pit pulled, and when each was used last: a file that is whole or absent."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}
        try:
            self._known = dict(json.loads(file.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            # Unknown images are not ours to remove: without the file, none is.
            self._known = {}

    def note(self, id_: str, at: float, name: str = "", size: int = 0) -> None:
        """It is used now; with a name: it was pulled now."""
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
            write_whole(self._file, json.dumps(self._known))
        except OSError as error:
            log.warning("which images were used cannot be written: %s", error)


def _names(image: Image) -> tuple[str, ...]:
    """By which it may be called, also those without the tag that is meant without one."""
    return (*image.tags, *(tag.removesuffix(":latest") for tag in image.tags))
