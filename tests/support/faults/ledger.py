"""What jobs of tests write down themselves, outside pit: `START/BEAT/END job attempt rank node boottime n`.

The number after the time is how many lines the process has printed; an END has the exit code after it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# No program is started but `sleep`: a job should cost little, and write in one piece.
SCRIPT = """
eval "host=\\$HOST_GROUP${{GROUP_INDEX}}_PROCESS${{PROCESS_INDEX}}"
note() {{ read -r up _ </proc/uptime; echo "$1 $JOB_NUMBER $ATTEMPT $RANK $host $up $n $2" >>"{ledger}"; }}
n=0; note START
while [ $n -lt {lines} ] || [ -n "{gate}" -a ! -e "{gate}" ]; do
    echo "line $n"; n=$((n+1)); note BEAT; sleep {pause_s}
done
note END {code}
exit {code}
"""


@dataclass(frozen=True)
class Run:
    """One process that the ledger has seen: an attempt of a job, with its rank."""

    job: int
    attempt: int
    rank: int
    starts: int  # how often the command was started
    begun: float  # seconds since boot
    last: float  # its last sign of life
    lines: int  # that it has printed, at least
    exit_code: int | None  # None: it did not get that far


class Ledger:
    def __init__(self, folder: Path, seen_as: str = "") -> None:
        """`seen_as` is what jobs call the folder if they do not see it by its path."""
        folder.mkdir(parents=True)
        folder.chmod(0o777)  # jobs may run as their users
        self._folder, self._seen_as = folder, seen_as or str(folder)
        self.file = folder / "ledger"
        self.file.touch()
        self.file.chmod(0o666)

    def gate(self, name: str) -> Path:
        """A file that a job waits for; `open_gate` creates it."""
        return self._folder / f"gate-{name}"

    def script(self, *, lines: int = 3, code: int = 0, gate: str = "", pause_s: float = 0.05) -> str:
        """The commands of a job that prints at least so many lines and then waits for its gate."""
        waits_for = f"{self._seen_as}/{self.gate(gate).name}" if gate else ""
        ledger = f"{self._seen_as}/{self.file.name}"
        return SCRIPT.format(ledger=ledger, lines=lines, code=code, gate=waits_for, pause_s=pause_s)

    def open_gate(self, name: str) -> None:
        self.gate(name).touch()

    def runs(self) -> list[Run]:
        groups: dict[tuple[int, int, int], list[list[str]]] = {}
        for line in self.file.read_text().splitlines():
            words = line.split()
            groups.setdefault((int(words[1]), int(words[2]), int(words[3])), []).append(words)
        return [_run(*key, entries) for key, entries in sorted(groups.items())]

    def runs_of(self, job: int) -> list[Run]:
        return [run for run in self.runs() if run.job == job]


def _run(job: int, attempt: int, rank: int, entries: Iterable[list[str]]) -> Run:
    known = list(entries)
    times = [float(words[5]) for words in known]
    ends = [int(words[7]) for words in known if words[0] == "END"]
    assert len(ends) <= 1, f"job {job} has ended more than once: {known}"
    return Run(
        job,
        attempt,
        rank,
        sum(words[0] == "START" for words in known),
        min(times),
        max(times),
        max(int(words[6]) for words in known),
        ends[0] if ends else None,
    )
