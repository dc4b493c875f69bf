"""What processes use: means of samples since the last report, whoever measured them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from pit_protocol.messages.beat import Report, Usage
from pit_protocol.states import ProcessState
from pit_worker.spool.entry import Key


@dataclass
class Sum:
    """Samples of one process since `since`, by the monotonic clock; not all samples have all values."""

    since: float
    totals: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, sample: Usage) -> None:
        for name in Usage.__struct_fields__:
            value = getattr(sample, name)
            if value is not None:
                self._add(name, value, 1)

    def join(self, other: "Sum") -> None:
        for name, total in other.totals.items():
            self._add(name, total, other.counts[name])

    def mean(self) -> Usage:
        return Usage(**{name: round(total / self.counts[name], 1) for name, total in self.totals.items()})

    def _add(self, name: str, total: float, count: int) -> None:
        self.totals[name] = self.totals.get(name, 0.0) + total
        self.counts[name] = self.counts.get(name, 0) + count


class UsageMeans:
    """The mean usage of each process since its last report; a report without an answer does not count."""

    def __init__(self, report_s: float) -> None:
        self._report_s = report_s
        self._sums: dict[Key, Sum] = {}
        self._sent: dict[Key, Sum] = {}  # in the beat that is being sent

    def add(self, key: Key, sample: Usage, now: float) -> None:
        self._sums.setdefault(key, Sum(now)).add(sample)

    def take(self, report: Report, now: float) -> Usage | None:
        """The usage to send with this report: the mean so far, at intervals and with the end."""
        key = Key(report.process, report.attempt)
        found = self._sums.get(key)
        if not found or (report.state is not ProcessState.ENDED and now - found.since < self._report_s):
            return None
        self._sent[key] = self._sums.pop(key)
        return found.mean()

    def confirm(self, known: Iterable[Key]) -> None:
        """The head has it; drop what belongs to processes that are no longer known."""
        self._sent.clear()
        self._sums = {key: self._sums[key] for key in known if key in self._sums}

    def restore(self) -> None:
        """The head may not have it: add it to the next report."""
        for key, sent in self._sent.items():
            if later := self._sums.get(key):
                sent.join(later)
            self._sums[key] = sent
        self._sent.clear()
