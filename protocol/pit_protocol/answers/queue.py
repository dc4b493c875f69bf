"""The queue: in which order the scheduler considers waiting jobs, and why."""

from pit_protocol.wire import Answer, Float, Int


class QueueEntry(Answer, frozen=True):
    """A waiting job in its place; others' jobs that the caller may not see have no number."""

    place: Int  # from 1 on
    number: Int | None
    user: str
    request: str
    priority: str
    group: str  # that is charged; empty: none
    group_use: Float  # weighted hours of the group, with its jobs ahead of this one
    user_use: Float  # the same of the user
    starts_by: Float | None  # what is reserved for it; None: nothing
    starts: tuple[Float, Float] | None  # the estimate: not before, and not after
    reason: str
    as_of: Float | None  # when the reason was found, if the latest pass did not reach the job


class EstimateErrors(Answer, frozen=True):
    """How far the first estimates of starts were from the starts, over the last days."""

    days: Int = 0
    jobs: Int = 0  # that had an estimate, and started
    median_error_s: Float | None = None  # of the middle of the range; half of them were nearer
    inside_percent: Float | None = None  # that started within the range


class Queue(Answer, frozen=True):
    jobs: list[QueueEntry]
    total: Int
    held: Int  # jobs that wait for something else than resources: a time, another job, a limit
    estimates: EstimateErrors
