"""Read small text files that may be missing."""

from pathlib import Path

from pit_protocol.problem import Problem


def read_text(path: Path) -> str | None:
    """The file's text, or None if there is no such file."""
    try:
        return path.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise Problem("bad_file", f"{path} is not a UTF-8 text file", "delete or rewrite it") from None
