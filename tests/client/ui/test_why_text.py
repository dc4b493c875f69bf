"""`pit why`, from the head's answer to sentences."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from pit.ui.times import clock_time, local_time, parse_time
from pit.views.why import why_text
from pit_protocol.answers.jobs import ArrayProgress, FailedElement, JobSummary
from pit_protocol.answers.why import (
    Ahead,
    Failure,
    Holder,
    Missing,
    NodeFree,
    OtherJob,
    Queued,
    SmallerRequest,
    Story,
    Why,
)

NOW = parse_time("2026-04-01 12:00", 0)
JOB = JobSummary(
    number=14,
    index=None,
    elements=None,
    title="train",
    user="anna",
    request="4:[a100]",
    state="waiting",
    outcome=None,
    letters="WAI",
    reason="needs 4 a100, 2 free; job 12 (bob) holds the others",
    created_at=NOW - 800,
    since=NOW - 720,
    starts=(NOW + 600, NOW + 2400),
    gpu_percent=None,
    memory_percent=None,
    cpu_percent=None,
    memory_mib=None,
)
QUEUED = Queued(
    as_of=NOW - 1,
    missing=[Missing("a100", 4, 1, 2, "", [NodeFree("n0", 1), NodeFree("n1", 1)])],
    holders=[
        Holder(OtherJob(12, "bob"), "a100", 2, ["n0"], NOW + 8400, True),
        Holder(OtherJob(None, "eve"), "a100", 2, ["n1", "n2"], None, False),
    ],
    more_holders=1,
    place=6,
    length=9,
    ahead=[
        Ahead("priority", 1, [OtherJob(9, "bob")]),
        Ahead("user use", 4, [OtherJob(None, "eve"), OtherJob(10, "bob"), OtherJob(11, "bob")]),
    ],
    smaller=[
        SmallerRequest("4:[a100]", "with a time limit of 1h", "1h"),
        SmallerRequest("2:[a100]", "with fewer processes"),
    ],
)


def _text(why: Why, width: int | None = None) -> list[str]:
    return why_text(why, NOW, width).splitlines()


def test_a_waiting_job_is_explained_in_sentences() -> None:
    assert _text(Why(JOB, is_mine=True, queued=QUEUED)) == [
        'Job 14 "train" has waited for 12m: it needs 4 a100, 2 free; job 12 (bob) holds the others.',
        "Of the 4 a100, 2 are free: 1 on n0 and 1 on n1.",
        "Job 12 (bob) holds 2 a100 on n0 and ends by 14:20.",
        "A job of eve holds 2 a100 on n1 and n2 until its nodes answer again.",
        "1 other job holds some of it, too.",
        "It is number 6 of 9 in the queue.",
        "Job 9 (bob) is ahead by its priority.",
        "A job of eve, job 10 (bob), job 11 (bob) and 1 other are ahead, because their users have used less.",
        "It starts in 10 to 40 min, by what is known of the jobs before it.",
        "It would start now with a time limit of 1h: `pit set job:14 time=1h`.",
        "It would start now with fewer processes: '2:[a100]'.",
        "`pit stop 14 && pit rerun 14 --request '2:[a100]'` submits it that way.",
    ]


def test_no_line_is_wider_than_the_terminal() -> None:
    wide = max(map(len, _text(Why(JOB, is_mine=True, queued=QUEUED), 60)))
    assert 40 < wide <= 60


def test_nobody_is_told_to_stop_the_job_of_another() -> None:
    text = "\n".join(_text(Why(JOB, is_mine=False, queued=QUEUED)))
    assert 'Job 14 "train" of anna has waited' in text
    assert "pit stop" not in text


def test_a_job_that_no_pass_has_seen_says_so() -> None:
    why = Why(replace(JOB, reason=""), is_mine=True, queued=Queued(None))
    assert _text(why) == ['Job 14 "train" has waited for 12m: the scheduler has not considered it yet.']


def test_an_old_reason_has_its_age() -> None:
    why = Why(
        replace(JOB, reason="waits for its turn", starts=None),
        is_mine=True,
        queued=Queued(NOW - 300, place=1),
    )
    assert _text(why) == [
        'Job 14 "train" has waited for 12m: it waits for its turn.',
        "The scheduler found this 5m ago and has not reached the job since.",
        "It is first in the queue.",
        "Its start is not estimated, because nothing is reserved for it yet.",
    ]


def test_what_is_free_on_one_node_is_said_once() -> None:
    missing = Missing("cpu", 2, 2, 1, "", [NodeFree("n0", 1)])
    assert _text(Why(JOB, is_mine=True, queued=Queued(NOW, missing=[missing])))[1] == (
        "Of the 2 cores, 1 is free on n0."
    )


def test_what_is_free_on_several_nodes_is_no_help_for_one_process() -> None:
    missing = Missing("mem", 8, 8, 10, "", [NodeFree("n0", 6), NodeFree("n1", 4)])
    why = Why(JOB, is_mine=True, queued=Queued(NOW, missing=[missing]))
    assert _text(why)[1] == ("Each process needs 8 GiB of memory on one node; free are 6 on n0 and 4 on n1.")


@dataclass(frozen=True)
class Case:
    fields: dict[str, Any]
    story: Story
    text: list[str]


CASES = (
    Case(
        {"state": "running", "reason": ""},
        Story(300, "needs 1 gpu, 0 free", NOW - 600, 600, 2, ["n0", "n1"], NOW + 600),
        [
            'Job 14 "train" has run for 10m on n0 and n1, with 2 processes.',
            "It waited in the queue for 5m; at the end: needs 1 gpu, 0 free.",
            "Its time limit ends it in 10m, at 12:10.",
            "`pit log 14` follows its output, `pit stop 14` stops it.",
        ],
    ),
    Case(
        {"state": "preparing", "reason": ""},
        Story(None, "", None, None, 0, [], None),
        ['Job 14 "train" has been in preparation for 12m: the head builds its directory.'],
    ),
    Case(
        {"state": "ended", "outcome": "failed", "reason": "worker 1 ended with exit code 3"},
        Story(
            0.1,
            "",
            NOW - 900,
            180,
            2,
            ["n0"],
            None,
            Failure(1, "n0", "ended with exit code 3", ["oh", "\x1b[31mno"]),
        ),
        [
            'Job 14 "train" failed 12m ago: worker 1 ended with exit code 3.',
            "It ran for 3m on n0.",
            "Worker 1 on n0 failed first; its output ends with:",
            "  oh",
            "  no",
            "`pit log 14` prints all of its output, `pit rerun 14` runs it again.",
        ],
    ),
    Case(
        {"state": "ended", "outcome": "stopped", "reason": "by anna"},
        Story(None, "", None, None, 0, [], None),
        [
            'Job 14 "train" was stopped 12m ago: by anna.',
            "It never ran. `pit rerun 14` submits it again.",
        ],
    ),
)


def test_jobs_that_do_not_wait_get_their_story() -> None:
    for case in CASES:
        assert _text(Why(replace(JOB, **case.fields), is_mine=True, story=case.story)) == case.text


def test_an_array_tells_how_far_it_is_and_what_its_next_element_waits_for() -> None:
    elements = ArrayProgress(size=20, waiting=3, running=4, succeeded=12, failed=1, stopped=0)
    story = Story(None, "", None, None, 0, [], None)
    failed = [FailedElement(7, "failed", "worker 0 ended with exit code 3")]
    array = replace(JOB, elements=elements, state="running", reason="")
    queued = Queued(NOW, "needs 1 a100, 0 free")
    assert _text(Why(array, is_mine=True, queued=queued, story=story, failed=failed)) == [
        'Job 14 "train" has been running for 12m: 13/20 done, 1 failed, 4 running.',
        "Its next element waits: it needs 1 a100, 0 free.",
        "Element 14.7 failed: worker 0 ended with exit code 3.",
        "`pit why 14.7` explains one.",
    ]
    ended = replace(array, state="ended", outcome="failed", reason="1 of 20 elements failed")
    assert _text(Why(ended, is_mine=True, story=story, failed=failed)) == [
        'Job 14 "train" failed 12m ago: 1 of 20 elements failed.',
        "Element 14.7 failed: worker 0 ended with exit code 3.",
        "`pit why 14.7` explains one.",
        "`pit rerun 14 --failed` runs them again.",
    ]


def test_a_time_of_another_day_has_its_date() -> None:
    assert clock_time(NOW + 60, NOW) == "12:01"
    assert clock_time(NOW + 86400, NOW) == local_time(NOW + 86400)[:16]
