"""What a client sends to start a job."""

from dataclasses import dataclass

MAX_TITLE = 200
MAX_COMMAND = 128 * 1024


@dataclass(frozen=True)
class Snapshot:
    """A project's exact state: a commit that the head can get, and what differs from it."""

    tree: str  # hash of the whole resulting tree: the head compares after applying
    commit: str | None  # what the diff is against; None in a repository without commits
    remote: str | None  # where the head fetches the commit; None: the objects are in `pack`
    remote_name: str | None = None
    branch: str | None = None
    diff: str | None = None  # sha256 of the uploaded diff; None: nothing differs
    diff_lines: int = 0
    pack: str | None = None  # sha256 of the uploaded pack of the commit's objects


@dataclass(frozen=True)
class Submission:
    """One job as its user wants it; the same key sent twice is one job."""

    key: str
    title: str
    request: str
    snapshot: Snapshot
    command: str | None = None  # bash commands; None: the project's `.compute`
    private: bool = False
    continues: int | None = None  # number of the job whose `keep` is copied over
    image: str | None = None  # to run in; None: the cluster's default
