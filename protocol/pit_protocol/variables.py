"""Limits on the environment variables of a job: names, count, size, and which must be secrets."""

import re
from collections.abc import Mapping

from pit_protocol.problem import Problem

MAX_VARIABLES = 100
MAX_BYTES = 64 * 1024  # of all names and values together
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# Set by pit itself; PATH, LANG and PYTHONUNBUFFERED are only defaults.
OWN = re.compile(
    r"""JOB_NUMBER|ATTEMPT|NUM_GROUPS|NUM_PROCESSES_GROUP[0-9]+|HOST_GROUP[0-9]+_PROCESS[0-9]+
    |GROUP_INDEX|PROCESS_INDEX|RANK|WORLD_SIZE|LOCAL_RANK|MASTER_ADDR|MASTER_PORT|HOSTFILE
    |CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|NVIDIA_VISIBLE_DEVICES|NVIDIA_DRIVER_CAPABILITIES
    |JOB_DIR|SRC_DIR|KEEP_DIR|RESULT_FILE|USER_DIR|HOME|SHARED_DIR|.*_GROUP_DIR|PIT_.*""",
    re.VERBOSE,
)
# bash refuses to set these, or does not accept any value, and would fail with its own error.
OF_SHELL = {"UID", "EUID", "PPID", "OPTIND", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO"}
# Names of values that must not be shown: `--secret` takes them, `-e` does not.
LOOKS_SECRET = re.compile(r".*(KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)
# Neither an environment nor a database can store these: NUL and lone surrogates.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def check_job_variables(plain: Mapping[str, str], secrets: Mapping[str, str]) -> None:
    """Raise a Problem for the first variable of a job that is invalid, or should be secret."""
    for name in plain:
        if name in secrets:
            raise _bad(f"{name} is given both as a plain variable and as a secret", "give it once")
        if LOOKS_SECRET.fullmatch(name):
            raise Problem(
                "looks_secret",
                f"{name[:80]} looks like a secret, and everybody who may see the job sees the value of -e",
                f"`--secret {name[:80]}` takes the value from your environment and shows it to nobody",
                status=422,
            )
    check_variables({**plain, **secrets})


def check_variables(variables: Mapping[str, str]) -> None:
    """Raise a Problem for the first invalid variable. The message never contains a value."""
    if len(variables) > MAX_VARIABLES:
        raise _bad(f"a job can have at most {MAX_VARIABLES} variables, not {len(variables)}")
    for name, value in variables.items():
        _check_name(name)
        if _UNSTORABLE.search(value):
            raise _bad(f"the value of {name} is not valid text: it contains NUL or a lone surrogate")
    size = sum(len(text.encode()) for pair in variables.items() for text in pair)
    if size > MAX_BYTES:
        raise _bad(
            f"the variables of a job can have at most {MAX_BYTES:,} bytes in total, not {size:,}",
            "put large values into a file in the project or in your home",
        )


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise _bad(
            f"{name[:80]!r} is not a valid variable name",
            "a name has up to 100 letters, digits and _, and does not begin with a digit",
        )
    if OWN.fullmatch(name):
        raise _bad(f"{name} is set by pit itself", "choose another name")
    if name in OF_SHELL:
        raise _bad(f"{name} is reserved by the shell", "choose another name")


def _bad(message: str, hint: str = "") -> Problem:
    return Problem("bad_variable", message, hint, status=422)
