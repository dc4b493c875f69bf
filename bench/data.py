"""File transfer, compared with curl to the same head, with nginx and with tar.

The files are in /dev/shm if it exists, because disk speed would dominate the figures and vary.
"""

import os
import shutil
import socket
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.sizes import Sizes
from bench.table import Row, decimal_bytes, ratio_row, seconds, time_row
from tests.support.clusters.local import Cluster, Project, eventually, running

BLOCK = 1_000_000
MEMORY = Path("/dev/shm")
MANY = "for i in range({}): open(f'd{{i % 100}}-{{i}}', 'wb').write(__import__('os').urandom(2000))"
NGINX = """
daemon off; user root; worker_processes 1; pid {place}/nginx.pid; error_log {place}/error.log;
events {{}}
http {{
  access_log off; client_body_temp_path {place}/body; client_max_body_size 0; sendfile on;
  server {{ listen 127.0.0.1:{port}; root {place}/www; dav_methods PUT; }}
}}
"""


def measure(sizes: Sizes) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as place:
        cluster = Cluster(Path(place), Project(Path(place)))
        with running(cluster):
            return _Bench(cluster, Path(place), sizes).rows()


class _Bench:
    def __init__(self, cluster: Cluster, place: Path, sizes: Sizes) -> None:
        self._cluster, self._place, self._sizes = cluster, place, sizes
        cluster.ok("ls", "home")
        [self._home] = (cluster.home / "head" / "data" / "home").iterdir()
        self._url = (cluster.home / "connect.txt").read_text().split()[0] + "/api/v1"
        self._token = (cluster.home / "user.token").read_text().strip()
        self._large = place / "large"
        block = os.urandom(BLOCK)
        with self._large.open("wb") as file:
            for _ in range(sizes.large_bytes // BLOCK):
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
            taken = self._in_turns(works, lambda: target.unlink(missing_ok=True))
        source.unlink()
        target.unlink(missing_ok=True)
        return _rows(f"pull of {decimal_bytes(self._sizes.large_bytes)}", taken)

    def _push(self) -> list[Row]:
        url = f"{self._url}/files/home/large?part=0123456789abcdef&offset=0"
        works = {
            "pit": lambda: self._cluster.ok("push", "-f", "home", "large", str(self._large)),
            "curl": lambda: self._curl("-o", "/dev/null", "-T", str(self._large), url),
        }
        with self._nginx() as nginx:
            if nginx:
                works["nginx"] = lambda: self._curl("-T", str(self._large), f"{nginx}/put")
            taken = self._in_turns(works, lambda: _empty(self._home))
        return _rows(f"push of {decimal_bytes(self._sizes.large_bytes)}", taken)

    def _small(self) -> list[Row]:
        files, make = self._sizes.small_files, MANY.format(self._sizes.small_files)
        many = self._home / "many"
        many.mkdir()
        subprocess.run(["python3", "-c", make], cwd=many, check=True)
        number = self._cluster.run(f'cd "$KEEP_DIR" && python3 -c "{make}"')
        self._cluster.wait(number)
        archive, copy = self._place / "x.tar.gz", self._place / "copy"
        [job] = (self._cluster.home / "head" / "data" / "jobs" / str(number)).iterdir()
        packing = self._in_turns(
            {
                "pit": lambda: self._cluster.ok("download", str(number), "-f", "-o", str(archive)),
                "tar": lambda: subprocess.run(["tar", "czf", archive, "."], cwd=job, check=True),
            }
        )
        copying = self._in_turns(
            {
                "pit": lambda: self._cluster.ok("pull", "home", "many", str(copy)),
                "tar": lambda: _copy(many, copy),
            },
            lambda: shutil.rmtree(copy, ignore_errors=True),
        )
        listing = statistics.median(
            seconds(lambda: self._cluster.ok("ls", "home", "many")) for _ in range(self._sizes.copies)
        )
        return [
            ratio_row(f"download of {files:,} files / tar cz", packing["pit"], packing["tar"], 1 / 0.6),
            _plain_row(f"pull of {files:,} files / tar c, tar x", copying["pit"], copying["tar"]),
            time_row(f"ls of {files:,} entries", listing, 0.3),
        ]

    def _in_turns(
        self, works: Mapping[str, Callable[[], object]], tidy: Callable[[], object] = lambda: None
    ) -> dict[str, float]:
        """Medians over several rounds. Each round runs all of them, so that conditions are the same."""
        taken: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(self._sizes.copies):
            for name, work in works.items():
                tidy()
                taken[name].append(seconds(work))
        tidy()
        return {name: statistics.median(times) for name, times in taken.items()}

    def _curl(self, *arguments: str) -> None:
        header = f"Authorization: Bearer {self._token}"
        subprocess.run(["curl", "--silent", "--fail", "--header", header, *arguments], check=True)

    @contextmanager
    def _nginx(self) -> Iterator[str | None]:
        """nginx serving the same home directory, if it is installed."""
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


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _copy(source: Path, target: Path) -> None:
    """Copy with `tar c | tar x`."""
    target.mkdir()
    with subprocess.Popen(["tar", "cf", "-", "."], cwd=source, stdout=subprocess.PIPE) as packing:
        subprocess.run(["tar", "xf", "-"], cwd=target, stdin=packing.stdout, check=True)
