"""How a container is started: a sequence of steps, each of which can be repeated."""

import os
from dataclasses import replace
from pathlib import Path

from pit_protocol.messages.beat import HOST, PRIVATE, ProcessSpec
from pit_protocol.system.failpoints import Failpoints
from pit_protocol.system.procfs import read_stat
from pit_worker.runtime.base import give_files
from pit_worker.runtime.binds import bind_venvs, check_inside, find_binds
from pit_worker.runtime.docker.container_cgroup import find_cgroup
from pit_worker.runtime.docker.engine import (
    ContainerInfo,
    Engine,
    EngineAway,
    EngineRefused,
    Image,
    NameTaken,
    NotFound,
)
from pit_worker.runtime.docker.exit_status import find_engine
from pit_worker.runtime.docker.network.networks import Networks, explain_missing
from pit_worker.runtime.docker.output_writer import OutputWriters
from pit_worker.runtime.docker.spec import arguments, container_name, is_own, labels, network_name
from pit_worker.spool.entry import Entry, Record
from pit_worker.spool.environment import NodeFault, StartRefused
from pit_worker.venv.cache import VenvCache

NOT_FOUND = 127  # exit code of an init whose program is not there
NO_GPUS = "the Docker engine of this node cannot give GPUs: it has no NVIDIA toolkit"
# A part of what runc says, and the sentence for the user.
NO_SHELL = "the image {image} has no /bin/sh, which runs commands"
_SENTENCES = (
    ("could not select device driver", NO_GPUS),
    ("no space left", "this node has no space left for a container"),
    ("nvidia-container-cli", "the GPUs cannot be given to the container: {text}"),
)


class NotStarted(Exception):
    """The container must not run its command any more; `why` is for its user."""

    def __init__(self, why: StartRefused) -> None:
        super().__init__(str(why))
        self.why = why


class ContainerStart:
    """Starts containers; any thread may, but only one for each process."""

    def __init__(
        self,
        engine: Engine,
        networks: Networks,
        output_writers: OutputWriters,
        venvs: VenvCache,
        failpoints: Failpoints,
    ) -> None:
        self._engine = engine
        self._networks = networks
        self._output_writers = output_writers
        self._venvs = venvs
        self._failpoints = failpoints

    def run(self, entry: Entry, image: Image) -> Record:
        """Start the command in its container; raises StartRefused, NotStarted, or OSError to try again."""
        spec = entry.intent.spec
        existing = entry.record()
        if existing and entry.supervisor():
            # It runs, but an earlier try failed after that, such as for want of a descriptor.
            return existing
        if spec is None or entry.is_claimed():
            raise StartRefused("it must not be started")
        engine = find_engine()
        binds = find_binds(Path(entry.intent.data_root), spec, mounted_by=engine and engine.pid)
        if spec.venv:
            place = self._venvs.make_user_dir(entry.intent.cluster, spec.venv, spec.account)
            binds += (bind_venvs(place),)
        _check_script(entry, spec)
        give_files(entry, spec)
        entry.save_image(image.digest)
        try:
            self._connect(entry, spec)
            container = self._create(entry, arguments(entry, spec, image, binds))
            self._failpoints.reach("after-create")
            record = self._start(spec, container)
            self._failpoints.reach("after-engine-start")
            entry.save_record(record)
            self._failpoints.reach("after-record")
            check_inside(record.pid, binds)
        except StartRefused as error:
            raise NotStarted(error) from error
        if not self._output_writers.claim(entry):
            raise NotStarted(StartRefused("stopped before it began"))
        self._failpoints.reach("after-claim")
        return record

    def _connect(self, entry: Entry, spec: ProcessSpec) -> None:
        network = spec.container.network if spec.container else HOST
        if network == PRIVATE:
            # All processes of a job with a private network are on this node.
            containers = int(spec.env.get("WORLD_SIZE", "1"))
            self._networks.acquire(network_name(entry, spec), entry.key, labels(entry, spec), containers)
        elif network != HOST:
            self._networks.check(network)

    def _create(self, entry: Entry, wanted: dict[str, object]) -> str:
        try:
            return self._engine.create(wanted)
        except NameTaken:
            # An earlier worker created it, or the engine did after this one's call had timed out.
            found = self._engine.get(container_name(entry))
        except NotFound as error:
            # Image or network were removed since they were checked.
            raise OSError(str(error)) from error
        except EngineRefused as error:
            raise NodeFault(f"the container could not be created: {error}") from error
        name = container_name(entry)
        if found and not is_own(found, entry):
            raise NodeFault(f"there is a container {name} already, which is not from this worker")
        if found and found.status in ("created", "running"):
            return found.id
        self._engine.remove(name)
        raise OSError(f"the container {name} could not run, and is created again")

    def _start(self, spec: ProcessSpec, container: str) -> Record:
        try:
            self._engine.start(container)
        except EngineRefused as error:
            text = str(error)
            if "network" in text and "not found" in text:
                raise self._without_network(spec, container, text) from error
            raise _explain(text, spec.container.image if spec.container else "") from error
        found = self._engine.get(container)
        stat = read_stat(found.pid) if found and found.pid else None
        group = find_cgroup(found.pid) if found and stat else None
        if found is None or stat is None or group is None:
            raise _ended_early(container, found, spec)
        if not _has_shell(found.pid):
            # Its init has ended already, or will as soon as it finds out.
            is_alive = read_stat(found.pid) is not None
            ended = replace(found, exit_code=NOT_FOUND) if is_alive else self._engine.get(container)
            raise _ended_early(container, ended, spec)
        return Record(found.id, found.pid, stat.start_time, str(group))

    def _without_network(self, spec: ProcessSpec, container: str, text: str) -> Exception:
        """A private network was removed since it was checked; any other never existed."""
        network = spec.container.network if spec.container else HOST
        if network != PRIVATE:
            return NodeFault(explain_missing(network))
        self._engine.remove(container)
        return OSError(text)


def _has_shell(init: int) -> bool:
    """Whether the container of this process has a /bin/sh; True if that cannot be seen."""
    try:
        os.lstat(f"/proc/{init}/root/bin/sh")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass
    return True


def _ended_early(container: str, found: ContainerInfo | None, spec: ProcessSpec) -> Exception:
    if found and found.exit_code == NOT_FOUND and spec.container:
        # The engine's init says so for what it cannot start.
        return StartRefused(NO_SHELL.format(image=spec.container.image))
    if found and found.status == "exited":
        return StartRefused(f"its container ended by itself before it began, with code {found.exit_code}")
    return EngineAway(f"the container {container} cannot be found")


def _check_script(entry: Entry, spec: ProcessSpec) -> None:
    if spec.command is None:
        file = Path(entry.intent.data_root) / spec.paths["SRC_DIR"] / ".compute"
        if not file.is_file():
            raise StartRefused("there is no .compute in the project, and no command was given")


def _explain(text: str, image: str) -> StartRefused:
    """Why a container could not be started: the image has no shell, or it is the node's fault."""
    if '"/bin/sh"' in text:
        return StartRefused(NO_SHELL.format(image=image))
    for pattern, sentence in _SENTENCES:
        if pattern in text:
            return NodeFault(sentence.format(text=text))
    return NodeFault(f"the container could not be started: {text}")
