"""Which events of a job its user is told of, and by which channels."""

STARTED, DONE, FAILED, STOPPED, STALLED = EVENTS = ("started", "done", "failed", "stopped", "stalled")
NONE = "none"
HELLO = "hello"  # sent once to a channel that was just set up
PREFIX = "notify."  # of the properties of a user that set up channels
MAIL, WEBHOOK, SLACK, TELEGRAM = CHANNELS = ("mail", "webhook", "slack", "telegram")
KEY = "key"  # with which webhooks are signed
MAX_EVENTS = 60  # characters


def parse_events(text: str) -> tuple[str, ...]:
    """Parse `done,failed`; `none` and an empty text are no events. Raises ValueError with the reason."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == [NONE]:
        return ()
    if wrong := [word for word in words if word not in EVENTS]:
        raise ValueError(f"{wrong[0][:40]!r} is not one of {', '.join(EVENTS)}; {NONE} is for no event")
    return tuple(event for event in EVENTS if event in words)
