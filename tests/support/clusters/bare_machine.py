"""A machine of its own for a shell: no file that it writes to the system's directories stays."""

from pathlib import Path

SCRIPT = Path(__file__).with_suffix(".sh")
# With the shell, everything that it has started ends.
NAMESPACES = ("--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")


def bare_machine(place: Path) -> list[str]:
    """The command that leads there; `place` is an empty directory."""
    return ["unshare", *NAMESPACES, "sh", str(SCRIPT), str(place)]
