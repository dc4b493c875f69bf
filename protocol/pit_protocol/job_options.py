"""The options of a job, declared once.

`pit run` and `pit rerun` get their command line options from this table; the submission contains
them, the head checks and stores them, `pit show`, `pit diff` and the reference page read them. To add
an option, add a field here.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from msgspec import field

from pit_protocol.arrays.elements import MAX_TEXT
from pit_protocol.arrays.numbers import job_name
from pit_protocol.dependencies import Dependency, render_dependencies
from pit_protocol.durations import parse_duration, render_duration
from pit_protocol.job_times import parse_moment, parse_signal, parse_stall
from pit_protocol.notifications import MAX_EVENTS, parse_events
from pit_protocol.problem import Problem
from pit_protocol.wire import Int, Message

MAX_COMMAND = 128 * 1024
MAX_IMAGE = 255
MAX_COMMENT = 1000
MAX_RUNTIME = 10
ANY, PROCESS, DOCKER = RUNTIMES = ("any", "process", "docker")  # of nodes
FIRST, ALL = UNTIL = ("first", "all")
LOW, NORMAL, HIGH = PRIORITIES = ("low", "normal", "high")
MAX_PATH = 255
MAX_VERSION = 20
MAX_TIME = 40
JOB = "N"  # metavar of an option whose value is the number of a job
MOMENT = "TIME"  # metavar of an option whose value is a time, sent with its offset
ASSIGNMENT = "NAME[=VALUE]"  # metavar of an option that sets variables
CODES = "CODE[,CODE]"  # metavar of an option that names exit codes
TIMES = "TIMES"  # metavar of an option that is a count
AFTER = "N[,N][:WHEN]"  # metavar of an option that names jobs and how they have to end
VALUES = "NAME=VALUES"  # metavar of an option that may be given several times


@dataclass(frozen=True)
class Option:
    flags: tuple[str, ...]  # on the command line
    help: str
    label: str  # in `pit show job:N`
    metavar: str = ""  # empty: a flag
    least: int = 1  # characters in a text
    most: int = 0
    choices: tuple[str, ...] = ()  # of a text; empty: any
    parse: Callable[[str], object] | None = None  # of a text; raises ValueError with the reason
    unset: str = ""  # what `pit show` and `pit diff` print if it is not set
    is_kept: bool = True  # `pit rerun` copies it from the old job
    on_rerun: bool = False  # `pit rerun` has this option too
    is_searchable: bool = False  # `pit show jobs NAME=PATTERN` finds jobs by it


class JobOptions(Message, frozen=True):
    """Settings of a job beyond its title, request, code and secrets."""

    command: Annotated[
        str | None,
        Option(
            ("-d", "--direct"),
            "Run these bash commands instead of .compute.",
            "Command",
            metavar="COMMANDS",
            most=MAX_COMMAND,
            unset=".compute",
        ),
    ] = None
    image: Annotated[
        str | None,
        Option(
            ("--image",),
            "Run in this container image instead of the cluster's default.",
            "Image",
            metavar="NAME",
            most=MAX_IMAGE,
        ),
    ] = None
    runtime: Annotated[
        str | None,
        Option(
            ("--runtime",),
            "Run on nodes of this kind: any, process or docker; --image implies docker.",
            "Runtime",
            metavar="KIND",
            most=MAX_RUNTIME,
            choices=RUNTIMES,
            on_rerun=True,
        ),
    ] = None
    priority: Annotated[
        str | None,
        Option(
            ("--priority",),
            "Start before jobs of a lower priority: low, normal or high.",
            "Priority",
            metavar="CLASS",
            most=MAX_RUNTIME,
            choices=PRIORITIES,
            on_rerun=True,
        ),
    ] = None
    pack: Annotated[
        bool,
        Option(("--pack",), "Use as few nodes as possible, and fill them.", "Pack", on_rerun=True),
    ] = False
    spread: Annotated[
        bool,
        Option(
            ("--spread",),
            "Run each process on a node of its own where that is possible.",
            "Spread",
            on_rerun=True,
        ),
    ] = False
    venv: Annotated[
        str | None,
        Option(
            ("--requirements",),
            "Run with the Python packages of this file: a uv.lock or requirements file.",
            "Venv",
            metavar="FILE",
            most=MAX_PATH,
        ),
    ] = None
    python: Annotated[
        str | None,
        Option(
            ("--python",),
            "The version of Python for --venv, such as 3.12.",
            "Python",
            metavar="VERSION",
            most=MAX_VERSION,
        ),
    ] = None
    private: Annotated[
        bool, Option(("-p", "--private"), "Do not share the job with your groups.", "Private")
    ] = False
    continues: Annotated[
        Int | None,
        Option(
            ("-c", "--continue"),
            "Start with a copy of job N's keep directory.",
            "Continues",
            metavar=JOB,
            is_kept=False,
        ),
    ] = None
    env: Annotated[
        dict[str, str],
        Option(
            ("-e", "--env"),
            "Set this variable for the job's processes; without VALUE, copy it from your environment.",
            "Variables",
            metavar=ASSIGNMENT,
            on_rerun=True,
        ),
    ] = field(default_factory=dict)
    comment: Annotated[
        str,
        Option(
            ("--comment",),
            "Keep this text with the job.",
            "Comment",
            metavar="TEXT",
            least=0,
            most=MAX_COMMENT,
            on_rerun=True,
            is_searchable=True,
        ),
    ] = ""
    after: Annotated[
        tuple[Dependency, ...],
        Option(
            ("--after",),
            "Start after job N has succeeded; WHEN: ok (default), any or fail.",
            "After",
            metavar=AFTER,
            is_kept=False,
            on_rerun=True,
        ),
    ] = ()
    time: Annotated[
        str | None,
        Option(
            ("--time",),
            "End the job when it has run for this long, such as 90m, 2h or 1d12h.",
            "Time limit",
            metavar="DURATION",
            most=MAX_TIME,
            parse=parse_duration,
            on_rerun=True,
        ),
    ] = None
    signal: Annotated[
        str | None,
        Option(
            ("--signal",),
            "Send this signal this many seconds before the time limit, such as USR1@120.",
            "Signal",
            metavar="NAME@SECONDS",
            most=MAX_TIME,
            parse=parse_signal,
            on_rerun=True,
        ),
    ] = None
    begin: Annotated[
        str | None,
        Option(
            ("--begin",),
            "Start no earlier than 22:00, 2026-12-01T08:00, or 2h from now.",
            "Begin",
            metavar=MOMENT,
            most=MAX_TIME,
            parse=parse_moment,
            is_kept=False,
            on_rerun=True,
        ),
    ] = None
    until: Annotated[
        str | None,
        Option(
            ("--until",),
            "Succeed when the first process has succeeded, or when all have (default): first or all.",
            "Until",
            metavar="WHICH",
            most=MAX_RUNTIME,
            choices=UNTIL,
            on_rerun=True,
        ),
    ] = None
    retry: Annotated[
        Int,
        Option(
            ("--retry",),
            "Run again up to this many times if the node is lost, or as --retry-on says.",
            "Retry",
            metavar=TIMES,
            on_rerun=True,
        ),
    ] = 0
    retry_on: Annotated[
        tuple[Int, ...],
        Option(
            ("--retry-on",),
            "Also run again after these exit codes; needs --retry.",
            "Retry on",
            metavar=CODES,
            on_rerun=True,
        ),
    ] = ()
    stall: Annotated[
        str | None,
        Option(
            ("--stall",),
            "Report the job if it writes nothing and uses no core or GPU for this long; 30m:stop stops it.",
            "Stall",
            metavar="DURATION[:stop]",
            most=MAX_TIME,
            parse=parse_stall,
            on_rerun=True,
        ),
    ] = None
    notify: Annotated[
        str | None,
        Option(
            ("--notify",),
            "Tell me when this happens: started, done, failed, stopped, stalled, or none.",
            "Notify",
            metavar="EVENTS",
            most=MAX_EVENTS,
            parse=parse_events,
            is_kept=False,
            on_rerun=True,
        ),
    ] = None
    array: Annotated[
        str | None,
        Option(
            ("--array",),
            "Run many elements as one job: 0-99, 0-90:10 or 0,3,7-9; with %8, at most 8 at a time.",
            "Array",
            metavar="INDICES",
            most=MAX_TEXT,
        ),
    ] = None
    sweep: Annotated[
        list[str],
        Option(
            ("--sweep",),
            "Run an element for each combination of these values: lr=1e-3,1e-4 and seed=0-9.",
            "Sweep",
            metavar=VALUES,
        ),
    ] = field(default_factory=list)

    def kept(self) -> dict[str, Any]:
        """Every option that `pit rerun` keeps, by name."""
        return {name: getattr(self, name) for name, option in OPTIONS.items() if option.is_kept}

    def for_rerun(self, given: dict[str, Any]) -> "JobOptions":
        """The options of a rerun: those that were kept or given; given variables join the old ones."""
        env = self.env | given.get("env", {})
        old = self.kept()
        if given.get("pack") or given.get("spread"):
            old |= {"pack": False, "spread": False}
        return JobOptions(**old | given | {"env": env})

    def shown(self, name: str) -> str:
        """The value of one option as text; empty if it is not set."""
        value = getattr(self, name)
        if isinstance(value, dict):
            return " ".join(f"{key}={shlex.quote(text)}" for key, text in sorted(value.items()))
        if OPTIONS[name].metavar == AFTER:
            return render_dependencies(value)
        if isinstance(value, list):
            return " ".join(map(shlex.quote, value))
        if isinstance(value, tuple):
            return ",".join(map(str, value))
        if isinstance(value, bool):
            return "yes" if value else OPTIONS[name].unset
        if value in (None, "", 0):
            return OPTIONS[name].unset
        return job_name(value) if OPTIONS[name].metavar == JOB else str(value)


def _declared() -> dict[str, Option]:
    hints = get_type_hints(JobOptions, include_extras=True)
    found = {}
    for name in JobOptions.__struct_fields__:
        found[name] = next(item for item in hints[name].__metadata__ if isinstance(item, Option))
    return found


OPTIONS = _declared()
SEARCHABLE = tuple(name for name, option in OPTIONS.items() if option.is_searchable)


def check_text(name: str, value: str) -> None:
    """Refuse a text that is shorter or longer than its option allows."""
    option = OPTIONS[name]
    if option.choices and value not in option.choices:
        known = ", ".join(option.choices)
        raise Problem(
            f"bad_{name}", f"{option.flags[-1]} takes one of {known}, not {value[:40]!r}", status=422
        )
    if not option.least <= len(value) <= option.most:
        raise Problem(
            f"bad_{name}",
            f"{option.flags[-1]} takes {option.least:,} to {option.most:,} characters, not {len(value):,}",
            status=422,
        )
    if option.parse:
        try:
            option.parse(value)
        except ValueError as error:
            raise Problem(f"bad_{name}", f"{option.flags[-1]}: {error}", status=422) from error


def check_retry(options: JobOptions, most: int) -> None:
    """Refuse retries that no job may have, or that would never happen."""
    if not 0 <= options.retry <= most:
        raise Problem("bad_retry", f"--retry takes 0 to {most:,}, not {options.retry:,}", status=422)
    if wrong := [code for code in options.retry_on if not 1 <= code <= 255]:
        raise Problem(
            "bad_retry_on", f"--retry-on takes exit codes from 1 to 255, not {wrong[0]}", status=422
        )
    if options.retry_on and not options.retry:
        raise Problem("bad_retry_on", "--retry-on needs --retry", "add --retry 3, for example", status=422)


def check_placement(options: JobOptions) -> None:
    """Refuse two ways to place one job."""
    if options.pack and options.spread:
        raise Problem("bad_placement", "--pack and --spread exclude each other", "leave one out", status=422)


def check_time(options: JobOptions) -> None:
    """Refuse a signal that no process would get."""
    if options.signal is None:
        return
    if options.time is None:
        raise Problem(
            "bad_signal", "--signal needs a time limit", "add --time, such as --time 2h", status=422
        )
    before_s = parse_signal(options.signal).before_s
    if before_s >= parse_duration(options.time):
        raise Problem(
            "bad_signal",
            f"--signal {options.signal} is {render_duration(before_s)} before the end, "
            f"and the job runs for {options.time} at most",
            "write a shorter time after @, or a longer --time",
            status=422,
        )
