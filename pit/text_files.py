"""Read small text files that may be missing."""

from pathlib import Path

from pit_protocol.private_file import is_private
from pit_protocol.problem import Problem


def check_private(path: Path) -> None:
    """Raise a Problem if others may read or write a file with secrets."""
    if not is_private(path):
        raise Problem(
            "open_file",
            f"{path} has your tokens, and other accounts of this machine may open it",
            f"`chmod 600 {path}`, then `pit logout` and `pit login` if they may have read it",
        )


def read_text(path: Path) -> str | None:
    """The file's text, or None if there is no such file."""
    try:
        return path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise Problem("bad_file", f"{path} is not a UTF-8 text file", "delete or rewrite it") from None
