"""Why a job waits, in words that name other jobs only to those who may see them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

MAX_NAMED = 3  # of the jobs that a reason names
JOBS, HOLD, RUN = "{jobs}", "{hold}", "{run}"  # in a reason's text: the jobs, and verbs that agree with them
ORDER = ("waits behind", "would delay")  # the beginnings of reasons that name waiting jobs


def number_of(job: int) -> str:
    return f"job {job}"


class Reason(NamedTuple):
    """Why a job waits; `{jobs}` in the text stands for `jobs` and `more` others."""

    text: str
    jobs: tuple[int, ...] = ()
    more: int = 0

    @property
    def is_about_order(self) -> bool:
        """Whether it names jobs that wait, too."""
        return self.text.startswith(ORDER)

    def render(self, name: Callable[[int], str] = number_of) -> str:
        """The text for a reader to whom the jobs have these names."""
        names = list(dict.fromkeys(map(name, self.jobs)))
        is_one = len(names) == 1 and not self.more
        words = {
            HOLD: "holds" if is_one else "hold",
            RUN: "runs" if is_one else "run",
            JOBS: self._list(names),
        }
        text = self.text
        for placeholder, word in words.items():
            text = text.replace(placeholder, word)
        return text

    def _list(self, names: list[str]) -> str:
        if self.more:
            return f"{', '.join(names)} and {self.more} more"
        return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def naming(text: str, jobs: Sequence[int]) -> Reason:
    """A reason that names these jobs, or the first of them if there are many."""
    return Reason(text, tuple(jobs[:MAX_NAMED]), max(0, len(jobs) - MAX_NAMED))
