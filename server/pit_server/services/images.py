"""Images that jobs may run in."""

import re

from pit_protocol.problem import Problem
from pit_server.settings import Settings

HUB = "docker.io"
MAX_NAME = 255
ID = re.compile(r"(sha256:)?[0-9a-f]+")
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::[0-9]{1,5})?)"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
NAME = re.compile(
    rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?"
)


def check(name: str, settings: Settings) -> str:
    """The image's name, if it is one and comes from where this cluster takes images; else a Problem."""
    if len(name) > MAX_NAME or not NAME.fullmatch(name):
        raise Problem(
            "bad_image",
            f"{name[:80]!r} is no name of an image",
            "it looks like registry.example.org/lab/torch:2.3",
            status=422,
        )
    if ID.fullmatch(name):
        # To an engine it would name any image of the node, wherever that came from.
        raise Problem(
            "bad_image",
            f"{name[:80]} may be an image's id",
            f"write it with its tag: {name[:80]}:latest",
            status=422,
        )
    allowed = [part.strip() for part in settings.registries.split(",") if part.strip()]
    if "*" not in allowed and not any(_is_below(full_name(name), _place(place)) for place in allowed):
        raise Problem(
            "image_not_allowed",
            f"this cluster takes no images such as {name}",
            f"it takes those of {', '.join(allowed)}",
            status=422,
        )
    return name


def full_name(name: str) -> str:
    """With its registry: `debian:12` is `docker.io/library/debian:12`."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"{HUB}/library/{name}"
    return name if _is_registry(first) else f"{HUB}/{name}"


def _is_registry(first: str) -> bool:
    return "." in first or ":" in first or first == "localhost"


def _place(text: str) -> str:
    """Where images may come from: a registry, or a part of one."""
    return text if "/" not in text and _is_registry(text) else full_name(text)


def _is_below(name: str, place: str) -> bool:
    """Whether the image is the place itself (with any tag), or lies in it."""
    rest = name.removeprefix(place)
    return rest != name and (rest == "" or rest[0] in "/:@")
