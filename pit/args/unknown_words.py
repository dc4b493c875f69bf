"""Commands and options that pit does not have: the nearest that it has, or what people know from other tools.

Imported after a mistake only, so that it costs a correct command line nothing.
"""

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence

import click

from pit.args.run_mistakes import looks_like_commands, quoted
from pit.args.usage_problem import UsageProblem

_STATUS = "`pit status` shows jobs, `pit show jobs` finds older ones"
_LOG = "`pit log` prints the log of your latest job and follows it, `pit log N` that of job N"
_STOP = "`pit stop N` stops job N, `pit stop last` your latest"
_RUN = "`pit run TITLE [REQUEST] -d 'COMMANDS'` runs commands in the current project"
_INSIDE = "`pit shell N` opens a shell inside job N, `pit exec N -- COMMAND` runs a command there"
_PORTS = "`pit forward N PORT` makes a port of job N reachable on this machine"
_SHOW = "`pit show N` shows all about job N, `pit show` about your latest"
_WHY = "`pit why N` explains why job N waits, or how it ended; `pit why` your latest job"
_NODES = "`pit show nodes` shows machines and what is free"
_COPY = "`pit pull` copies from a data directory, `pit push` and `pit sync` copy to one"
_REMOVE = "`pit rm home PATH` moves files to the trash, `pit rm KIND:NAME` removes a job, user, group or node"
_USAGE = "`pit show usage` shows disk space"
_CONNECT = "`pit connect URL` connects to a head, `pit up` starts one on this machine"
_RERUN = "`pit rerun N` runs job N again"
_PAUSE = "`pit stop N` ends job N, `pit run -c N` starts a job with a copy of its keep directory"

FOREIGN_COMMANDS = {
    word: hint
    for words, hint in {
        "ps queue squeue qstat jobs list condor_q bjobs q": _STATUS,
        "logs tail output stdout journal speek bpeek": _LOG,
        "kill cancel scancel qdel bkill abort terminate end": _STOP,
        "submit sbatch srun salloc qsub bsub launch start create new job": _RUN,
        "ssh attach enter console sattach bash sh": _INSIDE,
        "port-forward tunnel port ports proxy jupyter notebook tensorboard": _PORTS,
        "info describe inspect scontrol sacct history job-info details events": _SHOW,
        "reason explain pending eta when estimate sprio diagnose analyze better-analyze": _WHY,
        "nodes sinfo qhost bhosts hosts gpus gpu top nvidia-smi cluster": _NODES,
        "upload copy scp rsync put-file fetch get-file send": _COPY,
        "delete del unlink": _REMOVE,
        "usage quota df du disk": _USAGE,
        "init config configure setup": _CONNECT,
        "restart retry resubmit requeue repeat again": _RERUN,
        "pause suspend hold resume continue": _PAUSE,
        "users groups aliases tokens audit trash me": "`pit show {word}` shows this",
        "whoami who id user": "`pit show me` shows your account",
        "register signup signin auth": "`pit login` logs in, or registers a new user",
        "passwd password": "`pit set me password` changes your password",
        "version": "`pit --version` prints the version",
        "clone restore-code source code": "`pit checkout N` writes the exact code of job N to a directory",
        "umount unmount": "Ctrl-C in the terminal of `pit mount` unmounts",
        "stat find": "`pit ls ENTITY PATH` lists files, also by pattern",
        "drain": "`pit set node:NAME state=draining` drains a node",
        "join": "`pit add node:NAME` prints the command that makes a machine a node",
    }.items()
    for word in words.split()
}

_REQUEST_OPTIONS = {
    word: text
    for words, text in {
        "gpus gpu gres gpus-per-node gpus-per-task": "GPUs are part of the request: pit run TITLE '[2:gpu]'",
        "cpus cpus-per-task cores ncpus": "cores are part of the request: pit run TITLE '[4:cpu]'",
        "mem memory mem-per-cpu ram": "memory is part of the request, in GiB: pit run TITLE '[16:mem]'",
        "ntasks nodes processes nproc replicas workers n N": (
            "the number of processes is part of the request: pit run TITLE '2:[]'"
        ),
        "node nodelist host partition queue constraint w": (
            "a place is part of the request: pit run TITLE '[gpu]@n0', or '[gpu]@rack=r9' by label"
        ),
        "name job-name title": "the title is the first argument: pit run TITLE",
        "request resources": "the request is the second argument: pit run TITLE '[2:gpu]'",
        "command cmd exec script wrap": "-d gives the commands: pit run TITLE -d 'python3 train.py'",
        "dependency depends depends-on afterok": "--after N starts the job after job N has succeeded",
        "follow f attach wait tail": "-l follows the log",
        "detach background b": "a job runs in the background anyway; -l follows its log",
        "output o error": "`pit log` prints what the job wrote; files that it leaves in $KEEP_DIR are kept",
        "container docker": "--image names the container image",
        "dir workdir chdir": "a job runs in the root of the project; write `cd DIR; …` into -d or .compute",
    }.items()
    for word in words.split()
}
_FOREIGN_OPTIONS = {
    "run": _REQUEST_OPTIONS,
    "log": {
        "follow": "a log is followed anyway; --no-follow prints what is there and exits",
        "lines": "--tail LINES prints only the last lines",
        "worker": "--process 1 prints only one process",
        "rank": "--process 1 prints only one process",
    },
    "status": {"all": "`pit show jobs limit=100` lists more jobs", "a": "`pit show jobs` lists all jobs"},
    "ls": {"l": "sizes and times are listed anyway", "la": "hidden files are listed anyway"},
    "stop": {
        "f": "a job is stopped without a question; after ten seconds with SIGKILL",
        "force": "a job is stopped without a question; after ten seconds with SIGKILL",
        "all": "name the jobs: `pit stop 190-199`; `pit status` lists them",
        "9": "SIGKILL follows SIGTERM after ten seconds anyway",
    },
    "pull": {"r": "directories are copied with their content anyway"},
    "push": {"r": "directories are copied with their content anyway"},
    "remove": {"r": "directories are removed with their content anyway", "rf": "-f does not ask"},
}


def unknown_command(words: Sequence[str], known: Sequence[str]) -> UsageProblem:
    """The error for a first word that is no command."""
    word = words[0]
    return UsageProblem(f"there is no command {word!r}", _command_hint(list(words), known))


def _command_hint(words: list[str], known: Sequence[str]) -> str:
    word = words[0]
    if hint := FOREIGN_COMMANDS.get(word.lower()):
        return hint.format(word=word.lower())
    if re.fullmatch(r"(job:)?[0-9]+", word):
        return f"`pit show {word}` shows job {word.removeprefix('job:')}, `pit log {word}` prints its log"
    if word.startswith(("[", "(")) or re.match(r"[0-9-]+:\[", word):
        return f"a request comes after the title: `pit run TITLE {shlex.quote(word)}`"
    if close := difflib.get_close_matches(word.lower(), known, n=2):
        return f"did you mean {_alternatives(f'`pit {name}`' for name in close)}?"
    if looks_like_commands(" ".join(words)):
        return f"`pit run TITLE -d {quoted(words)}` runs this in the current project"
    return "`pit --help` lists the commands"


def unknown_option(error: click.NoSuchOption) -> UsageProblem:
    """The error for an option that a command does not have."""
    context, name = error.ctx, error.option_name
    if context is None:
        return UsageProblem(f"there is no option {name}", "`pit --help` lists the commands")
    message = f"`{context.command_path}` has no option {name}"
    if hint := _FOREIGN_OPTIONS.get(context.command.name or "", {}).get(name.lstrip("-")):
        return UsageProblem(message, hint, context)
    names = sorted(option for param in context.command.params for option in _options(param))
    # Without the dashes, which all have in common.
    words = [option.removeprefix("--") for option in names if option.startswith("--")]
    if close := difflib.get_close_matches(name.lstrip("-"), words, n=2):
        return UsageProblem(message, f"did you mean {_alternatives(f'--{word}' for word in close)}?", context)
    return UsageProblem(message, f"its options are {', '.join(names)}", context)


def _options(param: click.Parameter) -> list[str]:
    return [*param.opts, *param.secondary_opts] if isinstance(param, click.Option) else []


def _alternatives(words: Iterable[str]) -> str:
    return " or ".join(words)
