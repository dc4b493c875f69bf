"""Mistakes in the arguments of `pit run`: commands in the place of the request, a title without quotes."""

import re
import shlex
from collections.abc import Sequence

import click

from pit.args.usage_problem import UsageProblem
from pit_protocol.problem import Problem

_PROGRAMS = (
    "python python3 python2 bash sh zsh torchrun accelerate deepspeed mpirun mpiexec srun uv uvx conda mamba "
    "pip make cmake ninja cargo go node npm julia Rscript R matlab java nvidia-smi jupyter ipython pytest "
    "echo ls cat cd env export source sleep hostname date true false test sed awk grep find tar cp mv mkdir "
    "wget curl git docker time nohup sudo"
)
PROGRAMS = frozenset(_PROGRAMS.split())
_SCRIPT = re.compile(r"[\w./~-]+\.(py|sh|bash|R|jl|ipynb|pl|rb|js|m)")
_COMMANDS_GO = "commands go into .compute, or after -d as one quoted word"
# What people write for the reserved kinds.
_KINDS = {
    "gpus": "gpu",
    "cpus": "cpu",
    "core": "cpu",
    "cores": "cpu",
    "memory": "mem",
    "ram": "mem",
    "gb": "mem",
    "gib": "mem",
    "g": "mem",
}


class RunCommand(click.Command):
    """A command whose surplus words are probably those of a shell command, or of the title."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            option = error.option_name if isinstance(error, click.NoSuchOption) else ""
            is_surplus = option or "unexpected extra argument" in error.message
            if is_surplus and (problem := _surplus(words, option)):
                raise problem from error
            raise


def looks_like_commands(text: str) -> bool:
    """Whether a text is more likely a shell command than a request: `python train.py`, `./run.sh`."""
    words = text.split()
    return bool(words) and (_is_program(words[0]) or re.search(r"[;|&$]|\s--?[A-Za-z]", text) is not None)


def commands_as_request(title: str, request: str) -> UsageProblem | None:
    """The error for commands in the place of the request; None if it is something else."""
    words = [title, request] if _is_program(title.partition(" ")[0]) else [request]
    if not looks_like_commands(" ".join(words)):
        return None
    text = " ".join(words)
    return UsageProblem(
        f"{request!r} is not a request; {_COMMANDS_GO}", f"write `pit run TITLE -d {shlex.quote(text)}`"
    )


def parse_request(text: str, where: str = "", title: str = "") -> str:
    """The request in its canonical form; `where` it is from and the job's title help to explain mistakes."""
    from pit_grammar import RequestError, corrected, parse

    try:
        return str(parse(text))
    except RequestError as error:
        if problem := commands_as_request(title, text):
            raise problem from error
        sentence, _, rest = str(corrected(error)).partition("\n")
        raise Problem("bad_request", f"{where}{sentence}", rest) from error


def meant_kind(request: str) -> str:
    """A hint for a kind that no node has, because `gpu`, `cpu` or `mem` was meant."""
    kinds = re.findall(r"[a-z][\w.-]*", request.partition("@")[0].lower())
    meant = next((_KINDS[kind] for kind in kinds if kind in _KINDS), "")
    unit = {"mem": "mem, in GiB", "cpu": "cpu, in cores"}.get(meant, meant)
    return f"did you mean {unit}? `pit show nodes` lists the kinds of GPUs" if meant else ""


def quoted(words: Sequence[str]) -> str:
    """Words of a shell as one word of it, to be pasted after -d."""
    return shlex.quote(shlex.join(words))


def _surplus(words: list[str], option: str) -> UsageProblem | None:
    """The error for more words than a title and a request; None for a wrong option of pit itself."""
    plain = [word for word in words if word != "--"]
    end = next((place for place, word in enumerate(plain) if option and word.startswith(option)), len(plain))
    start = next((place for place, word in enumerate(plain[:end]) if _is_program(word)), None)
    if start is not None:
        title = shlex.quote(" ".join(plain[:start])) if start else "TITLE"
        hint = f"write `pit run {title} -d {quoted(plain[start:])}`"
        return UsageProblem(f"{plain[start]!r} begins a command; {_COMMANDS_GO}", hint)
    if option:
        return None
    titles = [word for word in plain if not word.startswith(("-", "[")) and not re.match(r"[0-9-]+:", word)]
    hint = f"quote a title that has spaces: pit run {shlex.quote(' '.join(titles))}"
    return UsageProblem("there are more words than a title and a request", hint)


def _is_program(word: str) -> bool:
    return (
        word.rpartition("/")[2] in PROGRAMS
        or word.startswith(("./", "/", "~/", "../"))
        or _SCRIPT.fullmatch(word) is not None
    )
