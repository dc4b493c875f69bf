"""The Docker engine as the worker sees it: a few calls, each with its time, and what goes wrong."""

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

PATIENCE_S = 30.0  # for any answer of the engine
SILENCE_S = 120.0  # of a pull that goes on
OLDEST_API = "1.41"
NEVER = "0001-01-01"


class EngineAway(OSError):
    """The engine does not answer; worth another try later."""


class EngineRefused(Exception):
    """The engine answered no; the text is its own."""


class Absent(EngineRefused):
    """There is no such thing."""


class Taken(EngineRefused):
    """Something of that name is there already, or still in use."""


@dataclass(frozen=True)
class Image:
    """An image that the engine has."""

    id: str
    digest: str  # names it for good, in its registry if it came from one
    env: tuple[str, ...] = ()
    size: int = 0
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A container as the engine sees it."""

    id: str
    status: str  # created, running, exited, dead …
    pid: int
    exit_code: int
    oom: bool
    finished_at: float | None
    labels: Mapping[str, str]
    upper: str = ""  # the directory of what it writes to its own files, if the engine tells


class _Line(docker.APIClient):  # type: ignore[misc]
    """Gives no call without a time: docker-py waits for a pull for ever."""

    def _set_request_timeout(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        kwargs["timeout"] = kwargs["timeout"] if kwargs.get("timeout") else self.timeout
        if kwargs.get("stream"):
            kwargs["timeout"] = SILENCE_S
        return kwargs


class Engine:
    """One engine; any thread may call, and each has a line of its own."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._lines = threading.local()
        self._patience_s = patience_s

    def get_image(self, name: str) -> Image | None:
        try:
            with self._asking() as client:
                return _read_image(client.api.inspect_image(name), name)
        except Absent:
            return None

    def remove_image(self, name: str) -> None:
        """Raises Taken where a container uses it."""
        with self._asking() as client:
            client.api.remove_image(name)

    def pull(self, name: str) -> Iterator[dict[str, Any]]:
        """Pull, telling what the engine tells on the way."""
        with self._asking() as client:
            answers = client.api.pull(name, stream=True, decode=True)
            yield from answers

    def create(self, arguments: Mapping[str, Any]) -> str:
        """The id of a new container; raises Taken where there is one of that name."""
        with self._asking() as client:
            return str(client.containers.create(**arguments).id)

    def start(self, container: str) -> None:
        with self._asking() as client:
            client.api.start(container)

    def wait(self, container: str) -> None:
        """Until it has ended; raises EngineAway if that takes too long."""
        with self._asking() as client:
            client.api.wait(container, timeout=PATIENCE_S)

    def get(self, container: str) -> Found | None:
        try:
            with self._asking() as client:
                return _read_container(client.api.inspect_container(container))
        except Absent:
            return None

    def list_(self, labels: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
        """Names and labels of all containers that have these."""
        with self._asking() as client:
            found = client.api.containers(all=True, filters=_filter(labels))
            return [(each["Names"][0].lstrip("/"), each["Labels"]) for each in found]

    def remove(self, container: str) -> None:
        """End it if it runs, and clear it away with its own volumes; one that is gone is fine."""
        with suppress(Absent), self._asking() as client:
            client.api.remove_container(container, v=True, force=True)

    def add_network(self, name: str, labels: Mapping[str, str], subnet: IPv4Network, bridge: str) -> None:
        """Raises EngineRefused, also where the subnet is in use."""
        ipam = IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
        options = {"com.docker.network.bridge.name": bridge}
        with suppress(Taken), self._asking() as client:
            client.api.create_network(
                name,
                driver="bridge",
                options=options,
                ipam=ipam,
                labels=dict(labels),
                check_duplicate=True,
            )

    def list_subnets(self) -> list[IPv4Network]:
        """Of all networks there are."""
        with self._asking() as client:
            pools = [pool for each in client.api.networks() for pool in each["IPAM"].get("Config") or ()]
        return [IPv4Network(pool["Subnet"]) for pool in pools if "." in pool.get("Subnet", "")]

    def list_networks(self, labels: Mapping[str, str]) -> list[str]:
        with self._asking() as client:
            return [str(each["Name"]) for each in client.api.networks(filters=_filter(labels))]

    def has_network(self, name: str) -> bool:
        with self._asking() as client:
            return any(each["Name"] == name for each in client.api.networks(names=[name]))

    def is_in_swarm(self) -> bool:
        return bool(self.info().get("Swarm", {}).get("LocalNodeState") == "active")

    def remove_network(self, name: str) -> None:
        """One that is gone is fine, and so is one that others are still in."""
        with suppress(EngineRefused), self._asking() as client:
            client.api.remove_network(name)

    def ping(self) -> None:
        """Raises EngineAway if it does not answer."""
        with self._asking() as client:
            client.api.ping()

    def info(self) -> dict[str, Any]:
        with self._asking() as client:
            return dict(client.api.info())

    def version(self) -> dict[str, Any]:
        with self._asking() as client:
            return dict(client.api.version())

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        try:
            if not hasattr(self._lines, "client"):
                line = _Line(version="auto", timeout=self._patience_s, **kwargs_from_env())
                # The upper layer of docker-py, without a line of its own.
                self._lines.client = docker.DockerClient(version=OLDEST_API)
                self._lines.client.api = line
            yield self._lines.client
        except APIError as error:
            text = str(error.explanation or error)
            kinds = {404: Absent, 409: Taken}
            raise kinds.get(error.status_code, EngineRefused)(text) from error
        except (DockerException, requests.RequestException, urllib3.exceptions.HTTPError) as error:
            raise EngineAway(f"the Docker engine does not answer: {error}") from error


def _read_image(told: dict[str, Any], name: str) -> Image:
    digests = told.get("RepoDigests") or []
    repository = name.partition("@")[0]
    # One image may be known to several registries: the one that was asked for comes first.
    own = [d for d in digests if repository.startswith(d.partition("@")[0])]
    return Image(
        id=told["Id"],
        digest=(own or digests or [told["Id"]])[0],
        env=tuple((told.get("Config") or {}).get("Env") or ()),
        size=int(told.get("Size") or 0),
        tags=tuple(told.get("RepoTags") or ()),
    )


def _read_container(told: dict[str, Any]) -> Found:
    state = told["State"]
    return Found(
        id=told["Id"],
        status=state["Status"],
        pid=state["Pid"],
        exit_code=state["ExitCode"],
        oom=bool(state.get("OOMKilled")),
        finished_at=_read_time(state["FinishedAt"]),
        upper=((told.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir", ""),
        labels=told["Config"].get("Labels") or {},
    )


def _read_time(text: str) -> float | None:
    if text.startswith(NEVER):
        return None
    # Nanoseconds are more than Python takes.
    seconds, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(seconds + "+00:00").timestamp() + float(f"0.{fraction or 0}")


def _filter(labels: Mapping[str, str]) -> dict[str, list[str]]:
    return {"label": [f"{name}={value}" for name, value in labels.items()]}
