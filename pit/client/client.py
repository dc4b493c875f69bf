"""A head for Python programs: submit projects, find jobs."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pit.args.options import LAST, LATEST
from pit.args.run_mistakes import parse_request
from pit.client.job import Job
from pit.client.options import make_given
from pit.connect.connection import find_connection
from pit.head.client import Head
from pit.head.latest import find_number
from pit.jobs import project_run
from pit.login.session import no_token
from pit.snapshot.plain_directory import PlainDirectory
from pit.snapshot.repository import Repository
from pit_protocol.answers.jobs import Status
from pit_protocol.answers.nodes import Node
from pit_protocol.answers.users import User
from pit_protocol.arrays.numbers import parse_job_name
from pit_protocol.problem import Problem

Directory = str | PathLike[str]


class Client:
    """The head that the command `pit` would use in a directory, with the same login.

    Every mistake and every refusal is a `pit.Problem`. Use it as a context manager, or call `close`.
    """

    def __init__(self, directory: Directory = ".") -> None:
        """The head of `directory`; `pit connect` and `pit login` make it known."""
        connection = find_connection(Path(directory).absolute())
        if connection.token is None:
            raise no_token(connection)
        self._directory = Path(directory).absolute()
        self._head = Head(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._head.__exit__(None, None, None)

    @property
    def url(self) -> str:
        """The address of the head."""
        return self._head.connection.url

    def run(
        self,
        title: str,
        request: str | None = None,
        *,
        directory: Directory | None = None,
        secrets: Mapping[str, str] | None = None,
        archive: bool = False,
        include: Sequence[str] = (),
        venv: bool | str | None = None,
        **options: Any,
    ) -> Job:
        """Submit the project around `directory` (by default, that of the client) as a job, like `pit run`.

        `options` are job options by name: `command`, `env`, `time`, `retry`, `sweep` and so on. `sweep`
        takes `{"lr": [1e-3, 1e-4], "seed": range(10)}`, `after` jobs or numbers. `venv` is True or a file of
        requirements, `archive` sends the directory without git, `include` names files that look like secrets.
        """
        place = Path(directory).absolute() if directory is not None else self._directory
        project = PlainDirectory(place) if archive else Repository.find(place)
        given = make_given(options)
        if isinstance(venv, str):
            given["venv"] = venv
        title = project_run.check_title(title)
        chosen = project_run.make_options(project, given, venv if isinstance(venv, bool) else None)
        project_run.check(project, title, chosen, secrets or {})
        asked = parse_request(request) if request is not None else project_run.find_request(project)
        record = project_run.submit_project(
            self._head, project, title, asked, chosen, secrets or {}, include=include
        )
        return Job(self._head, record)

    def job(self, number: int | str = "last") -> Job:
        """A job by its number; `"190.7"` is an element of an array, `"last"` your latest job."""
        found = LATEST if number == LAST else parse_job_name(str(number))
        if found is None:
            raise Problem("no_such_job", f"{number!r} is not a job number", "write 190, '190.7' or 'last'")
        return Job(self._head, self._head.job(find_number(self._head, found, tell=False)))

    def jobs(self, *, limit: int = 100, **filters: str | int) -> list[Job]:
        """Jobs, the newest first, by the filters of `pit show jobs`: `user="me"`, `title="%test%"`."""
        rows = self._head.jobs({**filters, "limit": limit}).jobs
        return [Job(self._head, row) for row in rows]

    def status(self) -> Status:
        """What `pit status` shows: running, waiting and done jobs, with totals."""
        return self._head.status()

    def nodes(self) -> list[Node]:
        """All nodes, with what they have and what is free."""
        return list(self._head.nodes().nodes)

    def me(self) -> User:
        """Your own account."""
        return self._head.me()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"
