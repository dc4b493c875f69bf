"""How a container comes to run its command: one step after another, each of which may be repeated."""

import os
from pathlib import Path

from pit_protocol.beat import HOST, PRIVATE, ProcessSpec
from pit_worker import crash
from pit_worker.binds import check_inside, find_binds
from pit_worker.containers import arguments, container_name, is_own, labels, network_name
from pit_worker.engine import Absent, Engine, EngineAway, EngineRefused, Found, Image, Taken
from pit_worker.entry import Entry, Record, read_stat
from pit_worker.environment import StartRefused
from pit_worker.networks import Networks, explain_lack
from pit_worker.occupants import find_cgroup
from pit_worker.scribe import Scribes

READ_ONLY, WRITE_ONLY = 0o444, 0o200
NOT_FOUND = 127  # exit code of an init whose program is not there
NO_GPUS = "the Docker engine of this node has no NVIDIA toolkit, to give GPUs"
# What runc says, and what a person can make of it.
_SENTENCES = (
    ('"/bin/sh"', "the image {image} has no /bin/sh, which runs commands"),
    ("could not select device driver", NO_GPUS),
    ("no space left", "this node has no space left for a container"),
    ("nvidia-container-cli", "the GPUs cannot be given to the container: {text}"),
)


class NotBegun(Exception):
    """A container that shall not run its command any more; the text says why, for its user."""


class Beginning:
    """Makes containers; any thread may, but one for each process."""

    def __init__(self, engine: Engine, networks: Networks, scribes: Scribes) -> None:
        self._engine = engine
        self._networks = networks
        self._scribes = scribes

    def begin(self, entry: Entry, image: Image) -> Record:
        """Let the command begin in its container; raises StartRefused, NotBegun, or OSError to try again."""
        spec = entry.intent.spec
        begun = entry.record()
        if begun and entry.supervisor():
            # It was told to nobody, for lack of a descriptor or the like.
            return begun
        if spec is None or entry.is_claimed():
            raise StartRefused("never to be started")
        binds = find_binds(Path(entry.intent.data_root), spec)
        _check_script(entry, spec)
        _give_files(entry, spec)
        entry.save_image(image.digest)
        try:
            self._connect(entry, spec)
            container = self._create(entry, arguments(entry, spec, image, binds))
            crash.point("after-create")
            record = self._start(spec, container)
            crash.point("after-engine-start")
            entry.save_record(record)
            crash.point("after-record")
            check_inside(record.pid, binds)
        except StartRefused as error:
            raise NotBegun(str(error)) from error
        if not self._scribes.claim(entry):
            raise NotBegun("stopped before it began")
        crash.point("after-claim")
        return record

    def _connect(self, entry: Entry, spec: ProcessSpec) -> None:
        network = spec.container.network if spec.container else HOST
        if network == PRIVATE:
            # All processes of a job with such a network are on this node.
            containers = int(spec.env.get("WORLD_SIZE", "1"))
            self._networks.hold(network_name(entry, spec), entry.key, labels(entry, spec), containers)
        elif network != HOST:
            self._networks.check(network)

    def _create(self, entry: Entry, wanted: dict[str, object]) -> str:
        try:
            return self._engine.create(wanted)
        except Taken:
            # An earlier worker made it, or the engine did after this one had lost patience.
            found = self._engine.get(container_name(entry))
        except Absent as error:
            # Image or network were removed since they were looked at.
            raise OSError(str(error)) from error
        except EngineRefused as error:
            raise StartRefused(f"the container could not be made: {error}") from error
        name = container_name(entry)
        if found and not is_own(found, entry):
            raise StartRefused(f"there is a container {name} already, and not of this worker")
        if found and found.status in ("created", "running"):
            return found.id
        self._engine.remove(name)
        raise OSError(f"the container {name} was not fit to run, and is made anew")

    def _start(self, spec: ProcessSpec, container: str) -> Record:
        try:
            self._engine.start(container)
        except EngineRefused as error:
            text = str(error)
            if "network" in text and "not found" in text:
                raise self._without_network(spec, container, text) from error
            raise StartRefused(_explain(text, spec.container.image if spec.container else "")) from error
        found = self._engine.get(container)
        stat = read_stat(found.pid) if found and found.pid else None
        group = find_cgroup(found.pid) if found and stat else None
        if found is None or stat is None or group is None:
            raise _ended_early(container, found, spec)
        return Record(found.id, found.pid, stat.start_time, str(group))

    def _without_network(self, spec: ProcessSpec, container: str, text: str) -> Exception:
        """A private one was removed since it was looked at; another was never there."""
        network = spec.container.network if spec.container else HOST
        if network != PRIVATE:
            return StartRefused(explain_lack(network))
        self._engine.remove(container)
        return OSError(text)


def _ended_early(container: str, found: Found | None, spec: ProcessSpec) -> Exception:
    if found and found.exit_code == NOT_FOUND and spec.container:
        # The engine's init says so for what it cannot start.
        return StartRefused(f"the image {spec.container.image} has no /bin/sh, which runs commands")
    if found and found.status == "exited":
        return StartRefused(f"its container ended by itself before it began, with code {found.exit_code}")
    return EngineAway(f"the container {container} cannot be found")


def _check_script(entry: Entry, spec: ProcessSpec) -> None:
    if spec.command is None:
        file = Path(entry.intent.data_root) / spec.paths["SRC_DIR"] / ".compute"
        if not file.is_file():
            raise StartRefused("there is no .compute in the project, and no command was given")


def _give_files(entry: Entry, spec: ProcessSpec) -> None:
    """Let the user inside read and write the files of the spool that are bound, and no more."""
    for file in (entry.hostfile, entry.command, entry.variables):
        if file.exists():
            file.chmod(READ_ONLY)
    if os.geteuid() == 0:
        # Whoever searches all files inside would else wait in it for ever, and take the scribe's part.
        entry.pipe.chmod(WRITE_ONLY)
    if spec.account:
        try:
            for file in (entry.pipe, *([entry.expired] if spec.lease_s else [])):
                os.chown(file, spec.account.uid, spec.account.gid)
        except PermissionError:
            raise StartRefused("this worker is not root: it cannot run processes of other users") from None


def _explain(text: str, image: str) -> str:
    for pattern, sentence in _SENTENCES:
        if pattern in text:
            return sentence.format(image=image, text=text)
    return f"the container could not be started: {text}"
