"""Data in and out, next to curl at the same head, to nginx, and to tar; in memory where there is room.

Disks are left out of it as far as can be: theirs would be most of the figure, and another each time.
"""

import os
import shutil
import socket
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.table import Row, ratio_row, seconds, time_row
from tests.e2e.cluster import Cluster, Project, eventually, running

MIB = 1024 * 1024
LARGE = 1024 * MIB
FILES = 10_000
ROUNDS = 5
MEMORY = Path("/dev/shm")
MANY = f"for i in range({FILES}): open(f'd{{i % 100}}-{{i}}', 'wb').write(__import__('os').urandom(2000))"
NGINX = """
daemon off; user root; worker_processes 1; pid {place}/nginx.pid; error_log {place}/error.log;
events {{}}
http {{
  access_log off; client_body_temp_path {place}/body; client_max_body_size 0; sendfile on;
  server {{ listen 127.0.0.1:{port}; root {place}/www; dav_methods PUT; }}
}}
"""


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        cluster = Cluster(Path(place), Project(Path(place)))
        with running(cluster):
            return _Bench(cluster, Path(place)).rows()


class _Bench:
    def __init__(self, cluster: Cluster, place: Path) -> None:
        self._cluster, self._place = cluster, place
        cluster.ok("ls", "home")
        [self._home] = (cluster.home / "head" / "data" / "home").iterdir()
        self._url = (cluster.home / "connect.txt").read_text().split()[0] + "/api/v1"
        self._token = (cluster.home / "user.token").read_text().strip()
        self._large = place / "large"
        block = os.urandom(MIB)
        with self._large.open("wb") as file:
            for _ in range(LARGE // MIB):
                file.write(block)

    def rows(self) -> list[Row]:
        rows = [*self._pull(), *self._push()]
        self._large.unlink()
        return [*rows, *self._small()]

    def _pull(self) -> list[Row]:
        source = self._home / "large"
        shutil.copyfile(self._large, source)
        target = self._place / "target"
        works = {
            "pit": lambda: self._cluster.ok("pull", "-f", "home", "large", str(target)),
            "curl": lambda: self._curl("-o", str(target), f"{self._url}/files/home/large"),
        }
        with self._nginx() as nginx:
            if nginx:
                works["nginx"] = lambda: self._curl("-o", str(target), f"{nginx}/large")
            taken = _in_turns(works, lambda: target.unlink(missing_ok=True))
        source.unlink()
        target.unlink(missing_ok=True)
        return _rows("pull of 1 GB", taken)

    def _push(self) -> list[Row]:
        url = f"{self._url}/files/home/large?part=0123456789abcdef&offset=0"
        works = {
            "pit": lambda: self._cluster.ok("push", "-f", "home", "large", str(self._large)),
            "curl": lambda: self._curl("-o", "/dev/null", "-T", str(self._large), url),
        }
        with self._nginx() as nginx:
            if nginx:
                works["nginx"] = lambda: self._curl("-T", str(self._large), f"{nginx}/put")
            taken = _in_turns(works, lambda: _empty(self._home))
        return _rows("push of 1 GB", taken)

    def _small(self) -> list[Row]:
        many = self._home / "many"
        many.mkdir()
        subprocess.run(["python3", "-c", MANY], cwd=many, check=True)
        number = self._cluster.run(f'cd "$KEEP_DIR" && python3 -c "{MANY}"')
        self._cluster.wait(number)
        archive, copy = self._place / "x.tar.gz", self._place / "copy"
        [job] = (self._cluster.home / "head" / "data" / "jobs" / str(number)).iterdir()
        packing = _in_turns(
            {
                "pit": lambda: self._cluster.ok("download", str(number), "-f", "-o", str(archive)),
                "tar": lambda: subprocess.run(["tar", "czf", archive, "."], cwd=job, check=True),
            }
        )
        copying = _in_turns(
            {
                "pit": lambda: self._cluster.ok("pull", "home", "many", str(copy)),
                "tar": lambda: _copy(many, copy),
            },
            lambda: shutil.rmtree(copy, ignore_errors=True),
        )
        listing = statistics.median(
            seconds(lambda: self._cluster.ok("ls", "home", "many")) for _ in range(ROUNDS)
        )
        return [
            ratio_row(f"download of {FILES:,} files / tar cz", packing["pit"], packing["tar"], 1 / 0.6),
            _plain_row(f"pull of {FILES:,} files / tar c, tar x", copying["pit"], copying["tar"]),
            time_row(f"ls of {FILES:,} entries", listing, 0.3),
        ]

    def _curl(self, *arguments: str) -> None:
        header = f"Authorization: Bearer {self._token}"
        subprocess.run(["curl", "--silent", "--fail", "--header", header, *arguments], check=True)

    @contextmanager
    def _nginx(self) -> Iterator[str | None]:
        """A server of the same home, if it is installed."""
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            yield None
            return
        place = Path(tempfile.mkdtemp(dir=self._place))
        (place / "www").symlink_to(self._home)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (place / "nginx.conf").write_text(NGINX.format(place=place, port=port))
        arguments = [program, "-e", str(place / "error.log"), "-c", str(place / "nginx.conf")]
        with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as server:
            try:
                eventually(lambda: _listens(port))
                yield f"http://127.0.0.1:{port}"
            finally:
                server.terminate()


def _plain_row(what: str, measured: float, floor: float) -> Row:
    return Row(what, f"{measured * 1000:.0f} ms", f"{floor * 1000:.0f} ms", measured / floor)


def _rows(what: str, taken: dict[str, float]) -> list[Row]:
    rows = [ratio_row(f"{what} / curl at the same head", taken["pit"], taken["curl"], 1 / 0.7)]
    if "nginx" in taken:
        rows.append(ratio_row(f"{what} / curl at nginx", taken["pit"], taken["nginx"], 1 / 0.5))
    return rows


def _in_turns(
    works: dict[str, Callable[[], object]], tidy: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Medians of several rounds, in each of which all have their turn: they see the same machine."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            tidy()
            taken[name].append(seconds(work))
    tidy()
    return {name: statistics.median(times) for name, times in taken.items()}


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _copy(source: Path, target: Path) -> None:
    """By one tar that packs and one that unpacks."""
    target.mkdir()
    with subprocess.Popen(["tar", "cf", "-", "."], cwd=source, stdout=subprocess.PIPE) as packing:
        subprocess.run(["tar", "xf", "-"], cwd=target, stdin=packing.stdout, check=True)
