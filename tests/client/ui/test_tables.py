"""Tables on terminals of any width: the least important column goes, and no letter of the state."""

import io

import pytest
from rich.console import Console

from pit.ui.tables import Column, Section, render_rich
from pit.views.job.processes import COLUMNS, folded_section, process_columns, process_section
from pit.views.job.table import JOB_COLUMNS, job_row
from pit_protocol.answers.jobs import JobProcess, JobSummary
from pit_protocol.wire import from_json
from tests.support.stubs.head import a_process, a_record, a_summary


def on_a_terminal(columns: tuple[Column, ...], section: Section, width: int) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, force_terminal=True, color_system=None)
    console.print(render_rich(columns, [section], width))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def job_lines(width: int) -> list[str]:
    record = a_record(1234, title="A title of about forty letters, or fifty", request="2:[8:gtx1070,16:mem]")
    job = from_json(JobSummary, a_summary({**record, "user": "anna.schmidt", "gpu_percent": 100.0}))
    return on_a_terminal(JOB_COLUMNS, Section("", [job_row(job, job.since + 7500)]), width)


@pytest.mark.parametrize("width", range(20, 121, 4))
def test_a_job_keeps_its_number_and_state_and_never_wraps(width: int) -> None:
    header, row = job_lines(width)
    assert header.split()[:2] == ["JOB", "S"]
    assert row.startswith("1234  RUN")
    assert max(len(header), len(row)) <= width


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (200, "JOB S SINCE UC% UM% USER TITLE RESOURCE"),
        (64, "JOB S SINCE UC% USER TITLE RESOURCE"),
        (60, "JOB S SINCE USER TITLE RESOURCE"),
        (50, "JOB S SINCE USER TITLE"),
        (30, "JOB S SINCE TITLE"),
        (24, "JOB S TITLE"),
        (10, "JOB S"),
    ],
)
def test_the_least_important_column_goes_first(width: int, names: str) -> None:
    assert job_lines(width)[0].split() == names.split()


def test_of_equally_important_columns_the_last_goes_first() -> None:
    columns = (Column("A"), Column("B"), Column("C"))
    assert on_a_terminal(columns, Section("", [("aaaa", "bbbb", "cccc")]), 10) == ["A     B", "aaaa  bbbb"]


def test_a_short_cell_of_a_flexible_column_takes_no_more_than_it_needs() -> None:
    columns = (Column("A", flexible=True), Column("B"))
    assert on_a_terminal(columns, Section("", [("aa", "bb")]), 40)[1] == "aa  bb"


def test_a_note_below_a_row_is_wrapped_and_loses_no_word() -> None:
    note = "needs 2 cores, 0 free; job 16 holds them"
    section = Section("", [("1", "WAI"), ("2", "RUN")], notes={0: note})
    lines = on_a_terminal((Column("JOB"), Column("S")), section, 26)
    assert max(map(len, lines)) <= 26
    assert [lines[1], lines[-1]] == ["1    WAI", "2    RUN"]
    assert " ".join(" ".join(lines[2:-1]).split()) == note


def test_a_note_that_is_cut_ends_with_what_shows_all_of_it() -> None:
    note = "needs 2 cores, 0 free; job 16 holds them"
    section = Section("", [("1", "WAI")], notes={0: note}, more_of={0: "`pit why 1`"})
    lines = on_a_terminal((Column("JOB"), Column("S")), section, 35)
    assert lines[2:] == ["     needs 2 cores, 0… `pit why 1`"]
    assert on_a_terminal((Column("JOB"), Column("S")), section, 60)[2:] == [f"     {note}"]


def processes(*some: dict[str, object]) -> list[JobProcess]:
    return [from_json(JobProcess, process) for process in some]


class TestProcesses:
    def test_those_of_several_attempts_have_the_number_of_theirs(self) -> None:
        some = processes(a_process(attempt=1, exit_code=75), a_process(attempt=2))
        section = folded_section(some, 0.0)
        assert [column.name for column in process_columns(some)][:2] == ["TRY", "WORKER"]
        assert [row[:2] for row in section.rows] == [("1", "0"), ("2", "0")]

    def test_alike_ones_share_a_row(self) -> None:
        many = processes(
            *(a_process(0, i, node=f"n{1 + i // 2}", resources=[f"gtx1070 {i}"]) for i in range(8))
        )
        section = folded_section(many, 0)
        [row] = section.rows
        assert (*row[:4], *row[5:]) == (
            "0–7",
            "n1..n4 (4)",
            "ended",
            "exit code 0",
            "1m",
            "gtx1070 each",
            "-",
        )

    def test_the_one_that_failed_comes_first(self) -> None:
        killed = {"exit_code": None, "signal": 15, "killed_by": "job"}
        four = processes(
            a_process(),
            a_process(0, 1, **killed),
            a_process(0, 2, exit_code=3, reason="out of memory"),
            a_process(0, 3),
        )
        rows = folded_section(four, 0).rows
        assert [(row[0], row[3], row[-1]) for row in rows] == [
            ("2", "exit code 3", "out of memory"),
            ("1", "signal 15", "-"),
            ("0, 3", "exit code 0", "-"),
        ]

    def test_a_reason_that_only_repeats_the_end_is_left_out(self) -> None:
        [row] = folded_section(processes(a_process(reason="ended with exit code 0")), 0).rows
        assert row[-1] == "-"

    def test_what_has_no_room_is_counted(self) -> None:
        section = folded_section(processes(*(a_process(0, i, exit_code=i) for i in range(9))), 0)
        assert (len(section.rows), section.more) == (5, 4)

    def test_each_has_a_row_if_asked_for(self) -> None:
        assert len(process_section(processes(*(a_process(0, i) for i in range(9))), 0).rows) == 9

    def test_a_narrow_terminal_keeps_how_it_ended(self) -> None:
        one = folded_section(processes(a_process(exit_code=137, reason="killed: out of memory")), 0)
        header = on_a_terminal(COLUMNS, one, 60)[0]
        assert header.split() == ["WORKER", "NODE", "STATE", "END", "RESOURCES", "REASON"]
