"""Environment variables that a user gives his processes: which names are free, and how much there may be."""

import re
from collections.abc import Mapping

from pit_protocol.problem import Problem

MAX_VARIABLES = 100
MAX_BYTES = 64 * 1024  # of all names and values together
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# What pit itself says to a process; PATH and LANG are only its defaults.
OWN = re.compile(
    r"""JOB_NUMBER|ATTEMPT|NUM_GROUPS|NUM_PROCESSES_GROUP[0-9]+|HOST_GROUP[0-9]+_PROCESS[0-9]+
    |GROUP_INDEX|PROCESS_INDEX|RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT|HOSTFILE
    |CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|NVIDIA_VISIBLE_DEVICES|NVIDIA_DRIVER_CAPABILITIES
    |JOB_DIR|SRC_DIR|KEEP_DIR|RESULT_FILE|USER_DIR|HOME|SHARED_DIR|.*_GROUP_DIR|PIT_.*""",
    re.VERBOSE,
)
# A shell does not let them be set, or not to any text, and would end with an error of its own.
OF_SHELL = {"UID", "EUID", "PPID", "OPTIND", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO"}
# What no environment and no database holds: NUL, and halves of characters.
_ODD = re.compile("[\0\ud800-\udfff]")


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise a Problem for the first that cannot be; it never tells a value."""
    if len(variables) > MAX_VARIABLES:
        raise _bad(f"a job has at most {MAX_VARIABLES} variables, not {len(variables)}")
    for name, value in variables.items():
        _check_name(name)
        if _ODD.search(value):
            raise _bad(f"the value of {name} is no text: it has a NUL or half a character")
    size = sum(len(text.encode()) for pair in variables.items() for text in pair)
    if size > MAX_BYTES:
        raise _bad(
            f"a job's variables have at most {MAX_BYTES:,} bytes together, not {size:,}",
            "put what is large into a file of the project, or of your home",
        )


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise _bad(
            f"{name[:80]!r} is no name of a variable",
            "a name has up to 100 letters, digits and _, and begins with no digit",
        )
    if OWN.fullmatch(name):
        raise _bad(f"{name} is set by pit itself", "choose another name")
    if name in OF_SHELL:
        raise _bad(f"{name} is the shell's own", "choose another name")


def _bad(message: str, hint: str = "") -> Problem:
    return Problem("bad_variable", message, hint, status=422)
