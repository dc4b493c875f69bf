"""The ```console blocks of a document: their commands, and the output that the document promises.

`$ ` begins a command; a here-document reaches to its end. What follows is its output: `…` alone stands for
any lines, and `…` inside a line for any text. A command that shows no output only has to succeed. A block
after `<!-- not run: REASON -->` is not executed, one after `<!-- as: jill -->` with the home of another user.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"(<!-- not run: .*? -->\n)?(?:<!-- as: (\w+) -->\n)?```console\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
_HERE = re.compile(r"<<-?\s*'?\"?(\w+)")
_LOG_LINE = re.compile(r"\[TIME\] \[(worker|process)")
_END = "\x01"  # between the output of a command, its exit code, and the next command
# What differs from run to run and from machine to machine, and nothing else.
_VARYING = (
    (r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\]", "[TIME]"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?\b", "TIME"),
    (r"\b[0-9a-f]{12,64}\b", "HASH"),
    (r"\b[0-9a-f]{7}\b(?=[. ])", "HASH"),
    (r"http://127\.0\.0\.1:\d+", "URL"),
    (r"\b[0-9,]+ bytes\b", "SIZE"),
    (r"\b\d+(\.\d+)? (s|ms|min)\b", "DURATION"),
    (r"\b\d+(s|m|h)\b", "AGE"),
    (r"\d+ cores?, \d+ GiB, (no GPUs|[^,]+ GPUs?), slots: \d+ of \d+ free", "MACHINE"),
    (r"\b(as node|placed on|started on) \S+", r"\1 NODE"),
    (r"\b([Jj]ob|Job number:|pit log|pit rerun) +\d+\b", r"\1 N"),
    (r"^ *\d+ (?=[A-Z]{3} )", "N "),  # a row of `pit status`
    (r" +", " "),
)


@dataclass(frozen=True)
class Command:
    text: str
    promised: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    is_run: bool
    user: str | None  # None: the one who reads the document
    commands: tuple[Command, ...]


def parse(document: Path) -> list[Block]:
    found = _FENCE.finditer(document.read_text())
    return [Block(not match[1], match[2], tuple(_commands(match[3].splitlines()))) for match in found]


def executed(blocks: list[Block]) -> list[Command]:
    """The commands of the blocks, and those by which the shell changes between users, in `$HOMES`."""
    commands = []
    for block in blocks:
        if block.is_run:
            home = [Command(f"export HOME=$HOMES/{block.user}", ())] if block.user else []
            back = [Command("export HOME=$HOMES/anna", ())] if block.user else []
            commands += [*home, *block.commands, *back]
    return commands


def _commands(lines: list[str]) -> Iterator[Command]:
    assert lines[0].startswith("$ "), lines[0]
    while lines:
        text = [lines.pop(0).removeprefix("$ ")]
        while text[-1].endswith("\\"):
            text.append(lines.pop(0))
        if here := _HERE.search(text[0]):
            while text[-1] != here[1]:
                text.append(lines.pop(0))
        output = []
        while lines and not lines[0].startswith("$ "):
            output.append(lines.pop(0))
        yield Command("\n".join(text), tuple(output))


def run(
    commands: list[Command],
    place: Path,
    env: Mapping[str, str],
    within_s: float,
    inside: Sequence[str] = (),
) -> list[tuple[str, int]]:
    """Type all commands into one shell; returns what each of them printed, and its exit code.

    `inside` is the command that leads to the machine on which the shell runs, if that is not this one.
    """
    script = "".join(f"{command.text}\nprintf '{_END}%s{_END}' $?\n" for command in commands)
    done = subprocess.run(
        [*inside, "bash", "-c", script],
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=within_s,
        check=False,
    )
    parts = done.stdout.split(_END)
    return [(parts[index], int(parts[index + 1])) for index in range(0, len(parts) - 1, 2)]


def fits(promised: tuple[str, ...], printed: str, home: str) -> bool:
    """Whether the output is the promised one, but for times, hashes, sizes and numbers.

    Processes write at the same time, so the order of their log lines is not compared.
    """
    wanted, wanted_logs = _split(_normalized([*promised], "/home/anna"))
    found, found_logs = _split(_normalized(printed.splitlines(), home))
    pattern = "".join(
        r"(.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in wanted
    )
    text = "".join(f"{line}\n" for line in found)
    return Counter(wanted_logs) <= Counter(found_logs) and re.fullmatch(pattern, text) is not None


def _normalized(lines: list[str], home: str) -> list[str]:
    plain = [line.replace(home, "~").rstrip() for line in lines]
    for pattern, name in _VARYING:
        plain = [re.sub(pattern, name, line) for line in plain]
    return plain


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    """All other lines, and those that processes wrote to the log."""
    logs = [line for line in lines if _LOG_LINE.match(line)]
    return [line for line in lines if not _LOG_LINE.match(line)], logs
