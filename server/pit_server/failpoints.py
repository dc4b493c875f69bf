"""Named points in the code at which a test can kill the head, as `kill -9` would; otherwise they do nothing.

`PIT_CRASH_AT=label` or `label:n` kills it at a point, the n-th time it is reached. Only tests set it.
"""

from collections.abc import Callable, Mapping

from pit_protocol.system.failpoints import Failpoints

CRASH_AT = "PIT_CRASH_AT"
_hook: Callable[[str], None] = Failpoints().reach


def install(hook: Callable[[str], None]) -> Callable[[str], None]:
    """Call this at each point from now on; returns the hook before it."""
    global _hook
    before, _hook = _hook, hook
    return before


def install_from(environ: Mapping[str, str]) -> None:
    install(Failpoints(environ.get(CRASH_AT, "")).reach)


def reach(label: str) -> None:
    _hook(label)
