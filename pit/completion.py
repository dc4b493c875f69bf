"""Words that complete a command line: jobs, nodes, kinds, data paths, as the head knows them.

Completion must never get in the way: it is silent, asks no questions, and gives up after a moment.
"""

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from pit.args import completers
from pit.args.completers import SOURCES, Word
from pit.args.entities import COLLECTIONS, Entity
from pit.args.remote_path import FIXED_DOMAINS, parse_remote_path
from pit.connect.connection import find_connection
from pit.head.client import Head
from pit.head.files_api import FilesApi
from pit.head.latest import find_path

TIMEOUT_S = 1.5
MOST_JOBS, MOST_PATHS = 100, 500
VARIABLE = "_PIT_COMPLETE"  # set by the shell's script, see `pit.cli`
SHELLS = ("bash", "zsh", "fish")
WORD_BREAKS = ":="  # bash completes only what follows the last of them
PLURALS = (
    "me",
    "jobs",
    "users",
    "groups",
    "nodes",
    "aliases",
    "queue",
    "tokens",
    "trash",
    "storage",
    "audit",
)


BASH = r"""
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=',' read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                COMPREPLY+=("$value")
                [[ $value == *[/:] ]] && compopt -o nospace ;;
        esac
    done < <(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class PitBash(BashComplete):
    """Reads the line itself: bash has cut `node:n0` into three words, and wants back only the last one."""

    source_template = BASH
    _cut = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "").encode()
        typed = line[: int(os.environ.get("COMP_POINT") or len(line))].decode(errors="replace")
        words = split_arg_string(typed)
        incomplete = "" if typed[-1:].isspace() or len(words) < 2 else words.pop()
        self._cut = incomplete[: max(incomplete.rfind(mark) for mark in WORD_BREAKS) + 1]
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{str(item.value).removeprefix(self._cut)}"


def script(shell: str, command: click.Command) -> str:
    """What a shell has to read to complete words of `pit`."""
    add_completion_class(PitBash)
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - SHELLS are those that click knows
    shown = found(command, {}, "pit", VARIABLE)
    return shown.source_template % shown.source_vars()


def register() -> None:
    """Let arguments be completed by what the head knows."""
    add_completion_class(PitBash)
    SOURCES.update(
        {
            completers.JOB: _quick(lambda head, _, __: _jobs(head)),
            completers.ENTITY: _quick(lambda head, _, typed: _entities(head, typed)),
            completers.DOMAIN: _quick(lambda head, _, typed: _domains(head, typed)),
            completers.PATH: _quick(_paths),
            completers.REQUEST: _quick(lambda head, _, typed: _requests(head, typed)),
            completers.GROUP: _quick(
                lambda head, _, __: ((each.name, each.title) for each in head.groups().groups)
            ),
        }
    )


def _quick(ask: Callable[[Head, click.Context, str], Iterable[Word]]) -> completers.Source:
    """A source that has a moment to answer; without a head, a token or an answer, it has no words."""

    def find(ctx: click.Context, typed: str) -> list[Word]:
        found: list[Word] = []

        def run() -> None:
            try:
                connection = find_connection()
                if connection.token:
                    with Head(connection) as head:
                        found.extend(ask(head, ctx, typed))
            except Exception:  # noqa: S110 - an error in the middle of a line that is being typed helps nobody
                pass

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
        return list(found)

    return find


def _jobs(head: Head, prefix: str = "") -> Iterator[Word]:
    for job in head.jobs({"limit": MOST_JOBS}).jobs:
        yield f"{prefix}{job.name}", f"{job.letters} {_line(job.title)}"


def _entities(head: Head, typed: str) -> Iterator[Word]:
    kind, colon, _ = typed.partition(":")
    if not colon:
        if typed[:1].isdecimal():
            yield from _jobs(head)
            return
        yield from ((word, "") for word in PLURALS)
        yield from ((f"{each}:", "") for each in COLLECTIONS)
        return
    if kind == "job":
        yield from _jobs(head, "job:")
    names: dict[str, Callable[[], Iterable[Word]]] = {
        "node": lambda: ((each.name, each.state) for each in head.nodes().nodes),
        "user": lambda: ((each.name, _line(each.full_name)) for each in head.users().users),
        "group": lambda: ((each.name, _line(each.title)) for each in head.groups().groups),
        "alias": lambda: ((each.name, _line(each.model)) for each in head.aliases().aliases),
    }
    if kind in names:
        yield from ((str(Entity(kind, name)), meaning) for name, meaning in names[kind]())


def _domains(head: Head, typed: str) -> Iterator[Word]:
    if typed.startswith(("user:", "group:", "job:")) and typed.count(":") == 1:
        yield from _entities(head, typed)
    elif re.match(r"[^/:]+[/:]|(user|group|job):[^/:]+[/:]", typed):
        yield from _below(head, typed)
    else:
        yield from ((word, "") for word in (*FIXED_DOMAINS, "user:", "group:"))
        yield from _jobs(head)


def _below(head: Head, typed: str) -> Iterator[Word]:
    """Paths that are part of the word, such as `home:data/x`."""
    cut = max(typed.rfind("/"), typed.rfind(":")) + 1
    yield from ((typed[:cut] + name, kind) for name, kind in _listed(head, typed[:cut].rstrip("/:"), ""))


def _paths(head: Head, ctx: click.Context, typed: str) -> Iterator[Word]:
    """Paths below the domain that the word before names."""
    entity = ctx.params.get("entity")
    if entity is None:
        return
    folder = typed[: typed.rfind("/") + 1]
    yield from ((folder + name, kind) for name, kind in _listed(head, str(entity), folder))


def _listed(head: Head, entity: str, folder: str) -> Iterator[Word]:
    where = find_path(head, parse_remote_path(entity, folder))
    for entry in FilesApi(head).listing(where).entries[:MOST_PATHS]:
        name = entry.name.rpartition("/")[2]
        if name and name.isprintable():
            yield (f"{name}/" if entry.kind == "directory" else name), entry.kind


def _requests(head: Head, typed: str) -> Iterator[Word]:
    """A request, with the kind at its end completed."""
    match = re.fullmatch(r"(.*[\[,:])([a-z0-9._-]*)", typed, re.DOTALL)
    if match is None:
        yield from (("[", "one process"), ("2:[", "two processes")) if not typed else ()
        return
    kinds = {resource.kind for node in head.nodes().nodes for resource in node.resources}
    names = {alias.name for alias in head.aliases().aliases}
    for kind in sorted(kinds | names | {"cpu", "mem", "gpu"}):
        yield match[1] + kind, ""


def _line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:60]
