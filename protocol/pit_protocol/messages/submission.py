"""What a client sends to start a job: an offer, the objects that the head is missing, the submission."""

import re
from typing import Annotated

from msgspec import field

from pit_protocol.job_options import JobOptions
from pit_protocol.problem import Problem
from pit_protocol.wire import SECRET, Int, Message

MAX_TITLE = 200
MAX_HISTORY = 64  # commits of an offer
MAX_OBJECTS = 20_000  # hashes in one request
SNAPSHOT_INCOMPLETE = "snapshot_incomplete"  # code of the refusal of a submission with `only_if_here`


class Snapshot(Message, frozen=True):
    """A project's exact state. All trees have the files byte by byte as they are on disk:
    no line endings converted, no filters applied, files of submodules included.
    """

    tree: str  # the files to run
    commit: str | None = None  # the project's HEAD; None in a repository without commits
    committed: str | None = None  # the tree without uncommitted changes
    base: str | None = (
        None  # commit that the head has or fetches from `remote`; None: the pack has everything
    )
    remote: str | None = None
    remote_name: str | None = None
    branch: str | None = None
    diff_lines: Int = 0  # lines added and deleted between `committed` and `tree`
    pack: str | None = None  # sha256 of the uploaded pack of missing objects; None: nothing was missing
    keeps_pointers: bool = False  # Git LFS pointers in the tree are pointers on disk, and stay so


class Submission(Message, frozen=True):
    """A request for one job; the same key sent twice is one job."""

    key: str
    title: str
    request: str
    snapshot: Snapshot | None = None  # None: that of job `reruns`
    reruns: Int | None = None  # number of the job whose snapshot is used
    options: JobOptions = JobOptions()
    variables: Annotated[dict[str, str], SECRET] = field(default_factory=dict)  # secret; `options.env` is not
    inherits: Int | None = None  # number of a job whose other secret variables are added
    only_if_here: bool = False  # nothing was sent: refuse unless the head has the whole snapshot already


class Offer(Message, frozen=True):
    """Announces a snapshot before anything is sent, to find a base for it."""

    tree: str
    history: tuple[str, ...] = ()  # HEAD and commits before it, newest first
    remote: str | None = None
    base: str | None = None  # newest commit in `history` that the remote is known to have


class RemoteRef(Message, frozen=True):
    """A branch, tag or commit to run without a project at hand."""

    remote: str
    ref: str = ""  # empty: the default branch


class LfsFile(Message, frozen=True):
    """A file that Git LFS stores elsewhere, as described by its pointer."""

    oid: str  # sha256
    size: Int


class MissingObjects(Message, frozen=True):
    """Both a question and its answer: which of these does the head not have?"""

    objects: tuple[str, ...] = ()
    large: tuple[
        LfsFile, ...
    ] = ()  # question: used by the tree; answer: neither on the head nor at the remote
    remote: str | None = None  # where the head may fetch LFS files


def check_venv(file: str | None, python: str | None) -> None:
    """Refuse a Python environment that no node could build."""
    if python is not None and not re.fullmatch(r"3\.[0-9]{1,2}(\.[0-9]{1,2})?", python):
        raise Problem("bad_python", f"{python!r} is not a version of Python such as 3.12", status=422)
    if python is not None and file is None:
        raise Problem(
            "bad_python",
            "a version of Python needs a file with requirements",
            "`--venv` finds it",
            status=422,
        )
    if file is not None and (file.startswith(("/", "-")) or ".." in file.split("/")):
        raise Problem(
            "bad_venv",
            f"{file!r} is not a path in the project",
            "name it from the project's root",
            status=422,
        )
