"""Named places at which a test makes the worker die, as if by kill -9."""

import os

_reached: dict[str, int] = {}


def point(label: str) -> None:
    """Die here if `PIT_CRASH_AT` is `label`, or `label:n` and this is the n-th time."""
    wanted = os.environ.get("PIT_CRASH_AT")
    if not wanted:
        return
    name, _, count = wanted.partition(":")
    if name != label:
        return
    _reached[label] = _reached.get(label, 0) + 1
    if _reached[label] == int(count or 1):
        os._exit(137)
