"""The web page: how soon the head has its heaviest pages ready, and what many open pages cost others."""

import http.client
import multiprocessing
import threading
import time

from sqlalchemy import insert, select

from bench.crowd_client import Place
from bench.crowd_setup import admit, find_place, probe
from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit, wait
from bench.table import Row, percentile, seconds, time_row
from pit.head.client import Head
from pit_protocol import API_PREFIX
from pit_protocol.messages.submission import Snapshot
from pit_server.api.http.session_cookie import NAME
from pit_server.db.database import Database
from pit_server.db.models import Job
from pit_server.wakeups import Wakeups
from tests.support.clusters.local import Cluster, eventually

GOAL_S = 0.5
RELOAD_S = 2.0  # of an open page, however much changes
LINE = b"step 123456 loss 0.12345 lr 3.0e-4 and more text up to a hundred characters, as programs print it."


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    with connect(cluster) as head:
        place, code = find_place(head.connection.url), snapshot(cluster, head)
        printed = _print(head, code, sizes.page_log_bytes)
        _copy_job(cluster, printed, sizes.page_jobs)
        token = (cluster.home / "user.token").read_text().strip()
        log = f"{API_PREFIX}/jobs/{printed}/log?tail=1000"
        rows = [
            _page_row(place, token, ["/jobs"], f"page of {sizes.page_jobs:,} jobs", sizes),
            _page_row(
                place,
                token,
                [f"/jobs/{printed}", log],
                f"page of a job with a log of {sizes.page_log_bytes / 1e6:g} MB",
                sizes,
            ),
        ]
        return [*rows, *_crowd(cluster, code, place, token, sizes)]


def _print(head: Head, code: Snapshot, count: int) -> int:
    number = submit(head, code, f"yes '{LINE.decode()}' | head -c {count}").number
    wait(head, number)
    return number


def _copy_job(cluster: Cluster, number: int, count: int) -> None:
    """Write so many ended jobs like this one directly to the database."""
    database = Database(f"sqlite:///{cluster.home / 'head' / 'pit.db'}", Wakeups())
    with database.write() as session:
        row = session.execute(select(*Job.__table__.columns).where(Job.id == number)).one()
        values = {name: value for name, value in row._mapping.items() if name != "id"}
        copies = [{**values, "submission_key": f"copy-{i}", "title": f"copy {i}"} for i in range(count)]
        session.execute(insert(Job), copies)
    database.dispose()


def _get(connection: http.client.HTTPConnection, token: str, path: str) -> None:
    connection.request("GET", path, headers={"Cookie": f"{NAME}={token}", "Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path} was answered with {answer.status}")


def _page_row(place: Place, token: str, paths: list[str], name: str, sizes: Sizes) -> Row:
    connection = http.client.HTTPConnection(*place, timeout=120)

    def load() -> None:
        for path in paths:
            _get(connection, token, path)

    load()  # compiles the template
    times = [seconds(load) for _ in range(sizes.page_loads)]
    connection.close()
    return time_row(f"{name}, p99", percentile(times, 0.99), GOAL_S)


def _crowd(cluster: Cluster, code: Snapshot, place: Place, token: str, sizes: Sizes) -> list[Row]:
    """Probe the API while pages are open and a job every second changes what they show."""
    _, users = admit(cluster, 0, sizes.open_pages, admins=False)
    context = multiprocessing.get_context("spawn")
    opened = context.Value("i", 0)
    pages = context.Process(target=_open_pages, args=(place, users, opened), daemon=True)
    pages.start()
    over = threading.Event()
    changing = threading.Thread(target=_change, args=(cluster, code, over), daemon=True)
    try:
        eventually(lambda: opened.value == len(users), within_s=120)
        changing.start()
        found = probe(cluster, place, token, sizes.short_requests)
    finally:
        over.set()
        pages.kill()
        pages.join()
        changing.join(60)
    return found.rows(f"{sizes.open_pages:,} open pages")


def _change(cluster: Cluster, code: Snapshot, over: threading.Event) -> None:
    with connect(cluster) as head:
        while not over.wait(1.0):
            submit(head, code, "true")


def _open_pages(
    place: Place, users: list[str], opened: "multiprocessing.sharedctypes.Synchronized[int]"
) -> None:
    threads = [threading.Thread(target=_stay, args=(place, token, opened), daemon=True) for token in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _stay(place: Place, token: str, opened: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    """An open page: a stream of events, and a load of the page after each, as its script does it."""
    stream = http.client.HTTPConnection(*place, timeout=120)
    loads = http.client.HTTPConnection(*place, timeout=120)
    stream.request("GET", "/events?wait_s=600", headers={"Cookie": f"{NAME}={token}"})
    answer = stream.getresponse()
    loaded_at = 0.0
    while line := answer.readline():
        if line.startswith(b"event: open"):
            with opened.get_lock():
                opened.value += 1
        elif line.startswith(b"event: change"):
            time.sleep(max(loaded_at + RELOAD_S - time.monotonic(), 0.0))
            loaded_at = time.monotonic()
            _get(loads, token, "/jobs")
