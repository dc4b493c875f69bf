"""Real git servers on loopback: http with a login, ssh with a key, and Git LFS."""

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from tests.support.requirements import PROGRAMS, need_programs


@dataclass
class GitServer:
    """`git http-backend` behind an HTTP server that also has the batch API of Git LFS."""

    root: Path  # of the repositories
    login: tuple[str, str] | None = None
    large: dict[str, bytes] = field(default_factory=dict)  # by sha256
    href: str = ""  # of a large file, where it is not this server that has it
    redirect: str = ""  # target that every request is redirected to
    silent: bool = False  # accepts requests and never answers
    dribbles: bool = False  # answers byte by byte, and never finishes
    cut: int = 0  # bytes cut off at the end of a pack
    secret: str = ""  # searched in all command lines at each request
    seen: list[str] = field(default_factory=list)  # requests
    leaks: list[str] = field(default_factory=list)  # command lines with the secret
    host: str = "127.0.0.1"
    port: int = 0  # any that is free

    def __enter__(self) -> "GitServer":
        self._server = ThreadingHTTPServer((self.host, self.port), _handler(self))
        self.port = int(self._server.server_address[1])
        self._server.daemon_threads = True
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"

    def url(self, name: str = "remote.git") -> str:
        return f"http://{self.place}/{name}"

    def put(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self.large[name] = content
        return name

    def wait(self, seconds: float = 60) -> bool:
        """Whether the test is over."""
        return self._released.wait(seconds)


def _handler(server: GitServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.seen.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if server.secret:
                server.leaks += [line for line in command_lines() if server.secret in line]
            if server.silent:
                server.wait()
                self.close_connection = True
            elif server.dribbles:
                self.dribble()
            elif server.redirect:
                self.answer(302, b"", Location=server.redirect + self.path)
            elif server.login and not self.is_logged_in():
                self.answer(401, b"", **{"WWW-Authenticate": 'Basic realm="git"'})
            elif self.path.endswith("/info/lfs/objects/batch"):
                self.answer(200, json.dumps({"objects": self.links(json.loads(body))}).encode())
            elif self.path.startswith("/large/"):
                self.answer(200, server.large[self.path.rpartition("/")[2]])
            else:
                self.serve_git(body)

        do_POST = do_GET

        def is_logged_in(self) -> bool:
            wanted = base64.b64encode(":".join(server.login or ()).encode()).decode()
            return self.headers.get("Authorization") == f"Basic {wanted}"

        def links(self, asked: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
            here = server.href or f"http://{server.place}/large"
            return [
                {**item, "actions": {"download": {"href": f"{here}/{item['oid']}"}}}
                if item["oid"] in server.large
                else {**item, "error": {"code": 404, "message": "not found"}}
                for item in asked["objects"]
            ]

        def serve_git(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            done = subprocess.run(
                ["git", "http-backend"], env=env, input=body, stdout=subprocess.PIPE, check=False
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().splitlines() if ": " in line)
            if server.cut and self.command == "POST" and b"PACK" in content:
                content = content[: -server.cut]
            self.answer(int(headers.pop("Status", "200").split()[0]), content, **headers)

        def dribble(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
            with suppress(OSError):
                while not server.wait(0.05):
                    self.wfile.write(b"0")
            self.close_connection = True

        def answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def command_lines() -> list[str]:
    """The command lines and environments of all processes, as `ps` could show them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        if path.parent.name == str(os.getpid()):
            continue  # the test itself knows the secret
        for file in (path, path.with_name("environ")):
            try:
                found.append(file.read_bytes().decode(errors="replace"))
            except OSError:
                continue
    return found


class SshServer:
    """A real sshd on loopback that accepts one key."""

    def __init__(self, folder: Path) -> None:
        need_programs("sshd", "ssh", "ssh-keygen")
        self._folder = folder
        folder.mkdir()
        for name in ("host", "user"):
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True
            )
        self.key = (folder / "user").read_text()
        (folder / "bin").mkdir()

    def answer_authenticate(self, href: str) -> None:
        """Make the server answer git-lfs-authenticate."""
        script = self._folder / "bin" / "git-lfs-authenticate"
        script.write_text(f"#!/bin/sh\necho '{json.dumps({'href': href, 'header': {'X-Ssh': 'yes'}})}'\n")
        script.chmod(0o755)

    def __enter__(self) -> "SshServer":
        sshd = shutil.which("sshd", path=PROGRAMS)
        assert sshd is not None
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        for self.port in range(42_000 + os.getpid() % 10_000, 65_000):
            if self._start(sshd):
                return self
        raise AssertionError("no port is free")

    def _start(self, sshd: str) -> bool:
        config = self._folder / "sshd_config"
        config.write_text(
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {self._folder}/host\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self._folder}/user.pub\nStrictModes no\nPasswordAuthentication no\n"
            f"SetEnv PATH={self._folder}/bin:/usr/local/bin:/usr/bin:/bin\n"
        )
        self._process = subprocess.Popen([sshd, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if b"Server listening" in line:
                return True
        self._stop()
        return False

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def url(self, path: Path) -> str:
        return f"ssh://{os.environ.get('USER') or 'root'}@127.0.0.1:{self.port}{path}"


class OnePort:
    """Forwards connections to a GitServer or an SshServer by their first bytes: both on one host and port."""

    def __init__(self, web: GitServer, ssh: SshServer) -> None:
        self._ports = {True: ssh.port, False: web.port}
        self.by_ssh = 0  # number of ssh connections

    def __enter__(self) -> "OnePort":
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._listen)]
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:  # grows until the first has ended
            thread.join()
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._connect, args=(client,)))
            self._threads[-1].start()

    def _connect(self, client: socket.socket) -> None:
        is_ssh = client.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL) == b"SSH-"
        self.by_ssh += is_ssh
        with client, socket.create_connection(("127.0.0.1", self._ports[is_ssh])) as server:
            back = threading.Thread(target=_pump, args=(server, client))
            back.start()
            _pump(client, server)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(1 << 16):
            target.sendall(block)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
