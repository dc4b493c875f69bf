"""Mistakes in the arguments of `pit run`: commands where a request or an option is expected."""

import re
import shlex
from collections.abc import Sequence

_PROGRAMS = (
    "python python3 python2 bash sh zsh torchrun accelerate deepspeed mpirun mpiexec srun uv uvx conda mamba "
    "pip make cmake ninja cargo go node npm julia Rscript R matlab java nvidia-smi jupyter ipython pytest "
    "echo ls cat cd env export source sleep hostname date true false test sed awk grep find tar cp mv mkdir "
    "wget curl git docker time nohup sudo"
)
PROGRAMS = frozenset(_PROGRAMS.split())
_SCRIPT = re.compile(r"[\w./~-]+\.(py|sh|bash|R|jl|ipynb|pl|rb|js|m)")


def looks_like_commands(text: str) -> bool:
    """Whether a text is more likely a shell command than a request: `python train.py`, `./run.sh`."""
    words = text.split()
    if not words:
        return False
    program = words[0].rpartition("/")[2]
    return (
        program in PROGRAMS
        or words[0].startswith(("./", "/", "~/", "../"))
        or _SCRIPT.fullmatch(words[0]) is not None
        or re.search(r"[;|&$]|\s--?[A-Za-z]", text) is not None
    )


def quoted(words: Sequence[str]) -> str:
    """Words of a shell as one word of it, to be pasted after -d."""
    return shlex.quote(shlex.join(words))
