"""The Docker engine as the worker uses it: a few calls, each with a timeout, and their errors."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Network
from typing import Any

import docker  # type: ignore[import-untyped]
import requests
import urllib3
from docker.errors import APIError, DockerException  # type: ignore[import-untyped]
from docker.types import IPAMConfig, IPAMPool  # type: ignore[import-untyped]
from docker.utils import kwargs_from_env  # type: ignore[import-untyped]

TIMEOUT_S = 30.0  # for any answer of the engine
PULL_TIMEOUT_S = 120.0  # without progress of a pull
OLDEST_API = "1.41"
NEVER = "0001-01-01"


class EngineAway(OSError):
    """The engine does not answer; worth another try later."""


class EngineRefused(Exception):
    """The engine refused; the text is its own."""


class NotFound(EngineRefused):
    """There is no such object."""


class NameTaken(EngineRefused):
    """An object of that name exists already, or is still in use."""


@dataclass(frozen=True)
class Image:
    """An image that the engine has."""

    id: str
    digest: str  # identifies its content, in its registry if it came from one
    env: tuple[str, ...] = ()
    size: int = 0
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContainerInfo:
    """A container as the engine shows it."""

    id: str
    status: str  # created, running, exited, dead …
    pid: int
    exit_code: int
    oom: bool
    finished_at: float | None
    labels: Mapping[str, str]
    upper: str = ""  # the directory of its own layer, if the engine shows it
    volumes: tuple[str, ...] = ()  # directories of the volumes that its image declares


class _ApiClient(docker.APIClient):  # type: ignore[misc]
    """Sets a timeout for every call: docker-py waits for a pull forever."""

    def _set_request_timeout(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        kwargs["timeout"] = kwargs["timeout"] if kwargs.get("timeout") else self.timeout
        if kwargs.get("stream"):
            kwargs["timeout"] = PULL_TIMEOUT_S
        return kwargs


class Engine:
    """One engine; any thread may call, and each has a connection of its own."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._local = threading.local()
        self._timeout_s = timeout_s

    def get_image(self, name: str) -> Image | None:
        try:
            with self._client() as client:
                return _read_image(client.api.inspect_image(name), name)
        except NotFound:
            return None

    def remove_image(self, name: str) -> None:
        """Raises NameTaken where a container uses it."""
        with self._client() as client:
            client.api.remove_image(name)

    def pull(self, name: str) -> Iterator[dict[str, Any]]:
        """Pull, and yield the progress that the engine reports."""
        with self._client() as client:
            answers = client.api.pull(name, stream=True, decode=True)
            yield from answers

    def create(self, arguments: Mapping[str, Any]) -> str:
        """The id of a new container; raises NameTaken where there is one of that name."""
        with self._client() as client:
            return str(client.containers.create(**arguments).id)

    def start(self, container: str) -> None:
        with self._client() as client:
            client.api.start(container)

    def wait(self, container: str) -> None:
        """Wait until it has ended; raises EngineAway if that takes too long."""
        with self._client() as client:
            client.api.wait(container, timeout=TIMEOUT_S)

    def get(self, container: str) -> ContainerInfo | None:
        try:
            with self._client() as client:
                return _read_container(client.api.inspect_container(container))
        except NotFound:
            return None

    def list_(self, labels: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
        """Names and labels of all containers that have these."""
        with self._client() as client:
            found = client.api.containers(all=True, filters=_filter(labels))
            return [(each["Names"][0].lstrip("/"), each["Labels"]) for each in found]

    def remove(self, container: str) -> None:
        """Kill it if it runs, and remove it with its own volumes; fine if it is gone."""
        with suppress(NotFound), self._client() as client:
            client.api.remove_container(container, v=True, force=True)

    def add_network(self, name: str, labels: Mapping[str, str], subnet: IPv4Network, bridge: str) -> None:
        """Raises EngineRefused, also where the subnet is in use."""
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
        options = {"com.docker.network.bridge.name": bridge}
        with suppress(NameTaken), self._client() as client:
            client.api.create_network(
                name,
                driver="bridge",
                options=options,
                ipam=ipam,
                labels=dict(labels),
                check_duplicate=True,
            )

    def list_subnets(self) -> list[IPv4Network]:
        """The subnets of all networks."""
        with self._client() as client:
            pools = [pool for each in client.api.networks() for pool in each["IPAM"].get("Config") or ()]
        return [IPv4Network(pool["Subnet"]) for pool in pools if "." in pool.get("Subnet", "")]

    def list_networks(self, labels: Mapping[str, str]) -> list[str]:
        with self._client() as client:
            return [str(each["Name"]) for each in client.api.networks(filters=_filter(labels))]

    def has_network(self, name: str) -> bool:
        with self._client() as client:
            return any(each["Name"] == name for each in client.api.networks(names=[name]))

    def is_in_swarm(self) -> bool:
        return bool(self.info().get("Swarm", {}).get("LocalNodeState") == "active")

    def remove_network(self, name: str) -> None:
        """Fine if it is gone, or still in use."""
        with suppress(EngineRefused), self._client() as client:
            client.api.remove_network(name)

    def ping(self) -> None:
        """Raises EngineAway if it does not answer."""
        with self._client() as client:
            client.api.ping()

    def info(self) -> dict[str, Any]:
        with self._client() as client:
            return dict(client.api.info())

    def version(self) -> dict[str, Any]:
        with self._client() as client:
            return dict(client.api.version())

    def start_exec(self, container: str, **arguments: Any) -> tuple[str, Any]:
        """Run a command in a container; its id, and the socket of its input and output."""
        with self._client() as client:
            number = str(client.api.exec_create(container, stdin=True, **arguments)["Id"])
            answer = client.api.exec_start(number, tty=arguments["tty"], socket=True)
            connection = getattr(answer, "_sock", answer)
            connection.settimeout(None)
            return number, connection

    def inspect_exec(self, number: str) -> tuple[int | None, int]:
        """The exit code of a command, if it has ended, and its process id on the node."""
        with self._client() as client:
            found = client.api.exec_inspect(number)
            return found["ExitCode"], found["Pid"]

    def resize_exec(self, number: str, rows: int, columns: int) -> None:
        with suppress(EngineRefused), self._client() as client:
            client.api.exec_resize(number, rows, columns)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        try:
            if not hasattr(self._local, "client"):
                api = _ApiClient(version="auto", timeout=self._timeout_s, **kwargs_from_env())
                # The high-level API of docker-py, over this connection.
                self._local.client = docker.DockerClient(version=OLDEST_API)
                self._local.client.api = api
            yield self._local.client
        except APIError as error:
            text = str(error.explanation or error)
            kinds = {404: NotFound, 409: NameTaken}
            raise kinds.get(error.status_code, EngineRefused)(text) from error
        except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise EngineAway(f"the Docker engine does not answer: {error}") from error


def _read_image(body: dict[str, Any], name: str) -> Image:
    digests = body.get("RepoDigests") or []
    repository = name.partition("@")[0]
    # One image may be in several registries: prefer the one that was asked for.
    own = [d for d in digests if repository.startswith(d.partition("@")[0])]
    return Image(
        id=body["Id"],
        digest=(own or digests or [body["Id"]])[0],
        env=tuple((body.get("Config") or {}).get("Env") or ()),
        size=int(body.get("Size") or 0),
        tags=tuple(body.get("RepoTags") or ()),
    )


def _read_container(body: dict[str, Any]) -> ContainerInfo:
    state = body["State"]
    return ContainerInfo(
        id=body["Id"],
        status=state["Status"],
        pid=state["Pid"],
        exit_code=state["ExitCode"],
        oom=bool(state.get("OOMKilled")),
        finished_at=_read_time(state["FinishedAt"]),
        upper=((body.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir", ""),
        volumes=tuple(mount["Source"] for mount in body.get("Mounts") or () if mount["Type"] == "volume"),
        labels=body["Config"].get("Labels") or {},
    )


def _read_time(text: str) -> float | None:
    if text.startswith(NEVER):
        return None
    # Python does not parse nanoseconds.
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(seconds + "+00:00").timestamp() + float(f"0.{fraction or 0}")


def _filter(labels: Mapping[str, str]) -> dict[str, list[str]]:
    return {"label": [f"{name}={value}" for name, value in labels.items()]}
