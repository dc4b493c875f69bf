"""How much of each kind of work both get."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PeerSizes:
    rounds: int = 3  # alternating, so that both run under the same conditions
    single_jobs: int = 300
    elements: int = 1_000
    submissions: int = 200
    first_lines: int = 20
    waiting_jobs: int = 10_000
    status_calls: int = 5
    large_array: int = 10_000
    slots: int = 16


SMOKE = PeerSizes(
    rounds=1,
    single_jobs=4,
    elements=5,
    submissions=4,
    first_lines=1,
    waiting_jobs=20,
    status_calls=1,
    large_array=20,
    slots=4,
)
