"""An engine of the test's own, that it may kill.

It has a network namespace of its own: an engine with `--bridge none` removes docker0, and in the
machine's namespace that is the bridge of the machine's own engine.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import docker

from tests.support.requirements import need_programs, need_system_rights
from tests.worker.conftest import is_alive

HOOK = "#!/bin/sh\ncat >/dev/null\n"


class OwnEngine:
    """Without bridges: its containers share its network, which leads nowhere."""

    def __init__(
        self, *options: str, gpus: bool = False, inside: Sequence[str] = ("unshare", "--net")
    ) -> None:
        need_programs("dockerd", "unshare")
        need_system_rights()
        self.folder = Path(tempfile.mkdtemp(prefix="pit-"))  # short: a socket's path is
        self.host = f"unix://{self.folder}/docker.sock"
        self._options = options
        self._inside = inside  # the command that leads into a network namespace
        self._path = f"{self.folder}/bin:{os.environ['PATH']}"
        if gpus:
            self.add_toolkit()
        self.start()

    def add_toolkit(self) -> None:
        """As far as the engine is concerned, which looks for it at its start."""
        hook = self.folder / "bin/nvidia-container-runtime-hook"
        hook.parent.mkdir()
        hook.write_text(HOOK)
        hook.chmod(0o755)

    def start(self) -> None:
        folder = self.folder
        with (folder / "log").open("a") as log:
            self._program = subprocess.Popen(
                [*self._inside, "dockerd", "--data-root", f"{folder}/data",
                 "--exec-root", f"{folder}/exec",
                 "--pidfile", f"{folder}/pid", "-H", self.host, "--bridge", "none", "--iptables=false",
                 "--cgroup-parent", f"/{folder.name}", "--config-file", "", *self._options],
                env={**os.environ, "PATH": self._path},
                stdout=log,
                stderr=log,
            )  # fmt: skip
        self.client = self._connect()
        own, machine = (Path(f"/proc/{pid}/ns/net").readlink() for pid in (self._program.pid, "self"))
        assert own != machine

    def kill(self) -> None:
        self.client.close()
        self._program.kill()
        self._program.wait()
        (self.folder / "pid").unlink(missing_ok=True)
        # It dies with the engine; but until it is reaped, a new engine takes it to be alive.
        containerd = self.folder / "exec/containerd/containerd.pid"
        while is_alive(containerd.read_text()):
            time.sleep(0.02)
        containerd.unlink()

    def freeze(self) -> None:
        self._program.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._program.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.thaw()
        if self._program.poll() is not None:
            self.start()
        for each in self.client.api.containers(all=True):
            with suppress(docker.errors.APIError):
                self.client.api.remove_container(each["Id"], v=True, force=True)
        self.client.close()
        self._program.terminate()
        self._program.wait(120)
        self._unmount()
        # Groups of other engines vanish meanwhile: os.walk passes over them, a glob would fail.
        for folder, names, _ in os.walk("/sys/fs/cgroup"):
            if self.folder.name in names:
                with suppress(OSError):
                    os.rmdir(os.path.join(folder, self.folder.name))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _connect(self) -> docker.DockerClient:
        for _ in range(300):
            assert self._program.poll() is None, (self.folder / "log").read_text()[-2000:]
            if self._answers():
                return docker.DockerClient(self.host, timeout=120)
            time.sleep(0.1)
        raise AssertionError((self.folder / "log").read_text()[-2000:])

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as line, suppress(OSError):
            line.settimeout(10)
            line.connect(self.host.removeprefix("unix://"))
            line.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200 OK" in line.recv(100)
        return False

    def _unmount(self) -> None:
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", place], check=False)
