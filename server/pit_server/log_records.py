"""The head's own log: lines of text or JSON that name the request and the job they are about."""

import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from pit_protocol.arrays.numbers import job_name

TEXT, JSON = FORMATS = ("text", "json")
_request: ContextVar[str] = ContextVar("request", default="")
_job: ContextVar[int | None] = ContextVar("job", default=None)


def begin_request() -> str:
    """Give the request that this thread handles an id."""
    request = secrets.token_hex(4)
    _request.set(request)
    return request


def request_id() -> str:
    return _request.get()


@contextmanager
def about_job(number: int) -> Iterator[None]:
    """What this thread logs in the block is about a job."""
    token = _job.set(number)
    try:
        yield
    finally:
        _job.reset(token)


def configure(style: str) -> None:
    """Log to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == JSON else TextFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _subject() -> dict[str, str]:
    job = _job.get()
    found = {"request": _request.get(), "job": "" if job is None else job_name(job)}
    return {name: value for name, value in found.items() if value}


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        subject = "".join(f" [{name} {value}]" for name, value in _subject().items())
        return super().formatMessage(record) + subject


class JsonFormatter(logging.Formatter):
    """One object on each line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "thread": record.threadName,
            **_subject(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
