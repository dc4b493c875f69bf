"""Paths on the wire: bytes, percent-encoded where text cannot hold them."""

import os
from typing import NotRequired, TypedDict
from urllib.parse import quote_from_bytes, unquote_to_bytes


def quote_path(path: str) -> str:
    """A path for a URL; bytes that are not UTF-8 survive."""
    return quote_from_bytes(os.fsencode(path), safe="/~@+,=:!$'()*")


def unquote_path(text: str) -> str:
    return os.fsdecode(unquote_to_bytes(text))


class NameFields(TypedDict):
    name: str
    encoded: NotRequired[str]


def name_fields(path: str) -> NameFields:
    """A path in JSON: `name`, and also `encoded` if it is not UTF-8 and `name` is only an approximation."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"name": os.fsencode(path).decode(errors="replace"), "encoded": quote_path(path)}
    return {"name": path}
