"""The manifest of a backup: what it has, and what it is of."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pit_protocol.problem import Problem
from pit_server.services.users.secrets import KEY_FILE
from pit_server.settings import FILE_NAME
from pit_server.tls import CERTIFICATE, KEY

FORMAT = 1
MANIFEST, DATABASE, HOME = "manifest.json", "database", "home"
HOME_FILES = (FILE_NAME, KEY_FILE, CERTIFICATE, KEY)
BLOCK = 1 << 20


@dataclass(frozen=True)
class Manifest:
    format: int
    version: str  # of pit-head
    tables: str  # version of the tables
    database: str  # sqlite or postgresql
    made_at: float
    hashes: dict[str, str]  # path -> SHA-256

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1)


def parse(text: str) -> Manifest:
    """Raises a Problem if another version wrote it."""
    content = json.loads(text)
    if content.get("format") != FORMAT:
        raise Problem(
            "bad_backup",
            f"this backup has format {content.get('format')}, and this pit-head reads format {FORMAT}",
            "restore it with the pit-head that made it",
        )
    return Manifest(**content)


def hash_file(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(BLOCK):
            found.update(block)
    return found.hexdigest()
