"""Container images that jobs may use."""

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
    """Return the name; raise a Problem if it is invalid or from a registry that is not allowed."""
    if len(name) > MAX_NAME or not NAME.fullmatch(name):
        raise Problem(
            "bad_image",
            f"{name[:80]!r} is not a valid image name",
            "for example registry.example.org/lab/torch:2.3",
            status=422,
        )
    if ID.fullmatch(name):
        # The engine would accept it as an id of any image on the node, whatever its registry.
        raise Problem(
            "bad_image",
            f"{name[:80]} could be an image id",
            f"add the tag: {name[:80]}:latest",
            status=422,
        )
    allowed = [part.strip() for part in settings.registries.split(",") if part.strip()]
    if "*" not in allowed and not any(_is_below(full_name(name), _place(place)) for place in allowed):
        raise Problem(
            "image_not_allowed",
            f"this cluster does not allow the image {name}",
            f"it allows images from {', '.join(allowed)}",
            status=422,
        )
    return name


def full_name(name: str) -> str:
    """The name with its registry: `debian:12` becomes `docker.io/library/debian:12`."""
    first, slash, _ = name.partition("/")
    if not slash:
        return f"{HUB}/library/{name}"
    return name if _is_registry(first) else f"{HUB}/{name}"


def _is_registry(first: str) -> bool:
    return "." in first or ":" in first or first == "localhost"


def _place(text: str) -> str:
    """An allowed source in full: a registry, or a path in one."""
    return text if "/" not in text and _is_registry(text) else full_name(text)


def _is_below(name: str, place: str) -> bool:
    """Whether the image is `place` itself, with any tag, or below it."""
    rest = name.removeprefix(place)
    return rest != name and (rest == "" or rest[0] in "/:@")
