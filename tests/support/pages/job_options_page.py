"""The reference page of job options, made from their table: `make docs` writes it, a test compares it."""

import sys
from pathlib import Path

from pit_protocol.job_options import OPTIONS, Option

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "job-options.md"
INTRODUCTION = """# Job options

The options that `pit run` takes for a job. `pit show job:N` and `pit diff N M` show them, `--json`
has them under `options`, and the head stores them with the job. *Rerun* says whether `pit rerun` keeps
the value of the old job, and whether it takes the option itself. *Search* says whether
`pit show jobs NAME=PATTERN` finds jobs by it.

This page is generated from `protocol/pit_protocol/job_options.py`; `make docs` writes it.

| option | name | meaning | limit | rerun | search |
|---|---|---|---|---|---|
"""


def render() -> str:
    return INTRODUCTION + "".join(_row(name, option) for name, option in OPTIONS.items())


def _row(name: str, option: Option) -> str:
    flags = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
    limit = f"{option.least:,} to {option.most:,} characters" if option.most else ""
    rerun = ", ".join([*(["keeps it"] if option.is_kept else []), *(["takes it"] if option.on_rerun else [])])
    search = "yes" if option.is_searchable else ""
    return f"| `{flags}` | `{name}` | {option.help} | {limit} | {rerun} | {search} |\n"


if __name__ == "__main__":
    PAGE.write_text(render())
    sys.stdout.write(f"{PAGE} is written\n")
