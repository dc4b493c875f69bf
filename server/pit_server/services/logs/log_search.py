"""Searching a log: the lines that contain a text, found in batches so that no request takes long."""

import time

from sqlalchemy.orm import Session

from pit_protocol.answers.jobs import LogLine, LogMatches
from pit_protocol.problem import Problem
from pit_server import cancellation
from pit_server.db.models import Job
from pit_server.services.logs import array_log, log_merge
from pit_server.services.logs.log_merge import Query
from pit_server.store.data_root import DataRoot

MAX_TEXT = 200  # characters
MOST_LINES = 200  # of one answer
SEARCH_S = 1.0  # after which the answer says how to go on
CONTEXT = 200  # characters of a long line before the text, and twice as many after it


def search(session: Session, job: Job, data: DataRoot, text: str, cursor: str, process: str) -> LogMatches:
    """The next lines after the cursor that contain the text; case does not matter."""
    if not 1 <= len(text) <= MAX_TEXT:
        raise Problem("bad_search", f"a text to search has 1 to {MAX_TEXT} characters", status=422)
    wanted, found = text.lower(), list[LogLine]()
    read = log_merge.read if job.array_size is None else array_log.read
    until = time.monotonic() + SEARCH_S
    while True:
        cancellation.check()
        batch = read(session, job, data, Query(cursor=cursor, process=process, unfinished=False))
        found += [_cut(line, wanted) for line in batch.lines if wanted in line.text.lower()]
        is_stuck = batch.cursor == cursor
        cursor = batch.cursor
        if batch.ended or is_stuck or not (batch.lines or batch.more):
            return LogMatches(found, cursor, ended=True)
        if len(found) >= MOST_LINES or time.monotonic() >= until:
            return LogMatches(found, cursor, ended=False)


def _cut(line: LogLine, wanted: str) -> LogLine:
    """The line, or the part of a long one that has the text."""
    if len(line.text) <= 4 * CONTEXT:
        return line
    at = max(line.text.lower().find(wanted) - CONTEXT, 0)
    return LogLine(line.at, line.source, line.text[at : at + 3 * CONTEXT])
