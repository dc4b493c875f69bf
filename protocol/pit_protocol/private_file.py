"""Files with secrets: nobody else may open them."""

from pathlib import Path


def is_private(path: Path) -> bool:
    """Whether only its owner may open the file; also if there is none."""
    try:
        return not path.stat().st_mode & 0o077
    except (FileNotFoundError, NotADirectoryError):
        return True
