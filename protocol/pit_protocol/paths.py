"""Paths on the wire: bytes, percent-encoded wherever a text cannot hold them."""

import os
from urllib.parse import quote_from_bytes, unquote_to_bytes


def quote_path(path: str) -> str:
    """A path for a URL; what is no UTF-8 in it survives."""
    return quote_from_bytes(os.fsencode(path), safe="/~@+,=:!$'()*")


def unquote_path(text: str) -> str:
    return os.fsdecode(unquote_to_bytes(text))


def name_fields(path: str) -> dict[str, str]:
    """A path in JSON: `name`, and `encoded` as well if it is no UTF-8 and `name` only looks like it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"name": os.fsencode(path).decode(errors="replace"), "encoded": quote_path(path)}
    return {"name": path}


def read_name(entry: dict[str, str]) -> str:
    """The inverse of `name_fields`."""
    return unquote_path(entry["encoded"]) if "encoded" in entry else str(entry["name"])
