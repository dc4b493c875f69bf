"""A registry on loopback, for pulls that are real."""

import socket
import subprocess
import time
from pathlib import Path

import docker
import requests

from tests.support.requirements import lack

CONFIG = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class Registry:
    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (folder / "registry.yml").write_text(CONFIG.format(folder=folder, port=self.port))
        try:
            self._program = subprocess.Popen(
                ["docker-registry", "serve", str(folder / "registry.yml")],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except FileNotFoundError:
            lack("no docker-registry to pull from")
        self._wait()

    def add(self, client: docker.DockerClient, image: str, name: str) -> str:
        """Push an image and remove it here; its full name."""
        whole = f"127.0.0.1:{self.port}/{name}"
        repository, _, tag = whole.rpartition(":")
        client.api.tag(image, repository, tag)
        for told in client.api.push(repository, tag, stream=True, decode=True):
            assert "error" not in told, told
        client.images.remove(whole)
        return whole

    def close(self) -> None:
        self._program.kill()
        self._program.wait()

    def _wait(self) -> None:
        for _ in range(500):
            try:
                requests.get(f"http://127.0.0.1:{self.port}/v2/", timeout=1)
                return
            except requests.ConnectionError:
                time.sleep(0.02)
        raise AssertionError("the registry does not answer")
