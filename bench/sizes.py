"""The sizes of each benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The defaults are what `make bench` reports."""

    client_starts: int = 20
    first_lines: int = 100
    short_jobs: int = 200
    short_processes: int = 1000
    array_elements: int = 1_000
    waiting_jobs: int = 10_000
    submissions: int = 200  # while those jobs wait
    status_calls: int = 10
    held_beats: int = 1000
    followers: int = 500
    one_byte_connections: int = 140
    idle_connections: int = 1005
    bad_logins: int = 200
    short_requests: int = 400
    crowd_settle_s: float = 30.0  # until every beat has been held for as long as so many nodes are
    attack_probes: int = 200
    attack_lines: int = 10_000
    attack_line_bytes: int = 10_000
    attack_bytes: int = 300_000_000
    lab_nodes: int = 1_000
    lab_users: int = 200
    lab_s: float = 300.0
    page_jobs: int = 10_000
    page_log_bytes: int = 100_000_000
    page_loads: int = 50
    open_pages: int = 200
    snapshot_files: int = 10_000
    snapshots: int = 15
    ready_trees: int = 5
    binaries: int = 10
    binary_bytes: int = 10_000_000
    container_starts: int = 15
    log_bytes: int = 1_000_000_000
    idle_containers: int = 50
    settle_s: float = 3.0  # before the idle worker is measured
    idle_s: float = 10.0
    large_bytes: int = 1_000_000_000
    small_files: int = 10_000
    copies: int = 5
    planned_nodes: int = 1_000
    planned_jobs: int = 10_000
    planned_shapes: int = 2_000  # distinct ones among these jobs
    most_planned: int = 100_000
    passes: int = 20


# Only checks that every benchmark runs. Its figures mean nothing.
SMOKE = Sizes(
    client_starts=2,
    first_lines=2,
    short_jobs=3,
    short_processes=5,
    array_elements=5,
    waiting_jobs=20,
    submissions=3,
    status_calls=2,
    held_beats=20,
    followers=10,
    one_byte_connections=5,
    idle_connections=20,
    bad_logins=5,
    short_requests=10,
    crowd_settle_s=0.1,
    attack_probes=5,
    attack_lines=100,
    attack_line_bytes=100,
    attack_bytes=1_000_000,
    lab_nodes=5,
    lab_users=3,
    page_jobs=20,
    page_log_bytes=10_000,
    page_loads=2,
    open_pages=3,
    lab_s=15.0,
    snapshot_files=50,
    snapshots=2,
    ready_trees=1,
    binaries=2,
    binary_bytes=100_000,
    container_starts=2,
    log_bytes=1_000_000,
    idle_containers=2,
    settle_s=0.1,
    idle_s=0.5,
    large_bytes=2_000_000,
    small_files=50,
    copies=1,
    planned_nodes=20,
    planned_jobs=100,
    planned_shapes=20,
    most_planned=200,
    passes=2,
)
