"""What a client sends to start a job: first what it could send, then what the head lacks of it."""

from dataclasses import dataclass, field

MAX_TITLE = 200
MAX_COMMAND = 128 * 1024
MAX_HISTORY = 64  # commits of an offer
MAX_OBJECTS = 20_000  # hashes that are asked for at a time


@dataclass(frozen=True)
class Snapshot:
    """A project's exact state. All trees are of files as they lie on disk, byte by byte:
    no line end is converted, no filter applied, and the files of submodules are in it.
    """

    tree: str  # what runs
    commit: str | None = None  # the project's HEAD; None in a repository without commits
    committed: str | None = None  # the tree as it would be without uncommitted changes
    base: str | None = None  # commit that the head has, or fetches from `remote`; None: all came in packs
    remote: str | None = None
    remote_name: str | None = None
    branch: str | None = None
    diff_lines: int = 0  # added and deleted ones between `committed` and `tree`
    pack: str | None = None  # sha256 of the uploaded pack with what the head lacked; None: nothing


@dataclass(frozen=True)
class Submission:
    """One job as its user wants it; the same key sent twice is one job."""

    key: str
    title: str
    request: str
    snapshot: Snapshot | None = None  # None: that of the job that is run again
    reruns: int | None = None  # number of the job whose snapshot is taken
    command: str | None = None  # bash commands; None: the project's `.compute`
    private: bool = False
    continues: int | None = None  # number of the job whose `keep` is copied over
    image: str | None = None  # to run in; None: the cluster's default
    variables: dict[str, str] = field(default_factory=dict, repr=False)  # of its environment
    inherits: int | None = None  # number of the job whose variables it has too, unless given here


@dataclass(frozen=True)
class Offer:
    """A snapshot about to be sent, before anything of it is: what could be its base?"""

    tree: str
    history: tuple[str, ...] = ()  # HEAD and commits before it, newest first
    remote: str | None = None
    base: str | None = None  # newest commit of the history that the remote is known to have


@dataclass(frozen=True)
class Demand:
    """The answer to an offer."""

    complete: bool  # the tree is here with all that belongs to it: nothing has to be sent
    base: str | None  # commit that is here or will be fetched: its objects need not be sent
    why: str = ""  # the remote is of no use, as a sentence for the user; empty: it is, or none was named


@dataclass(frozen=True)
class LargeFile:
    """Content that Git LFS keeps elsewhere, by what its pointer says of it."""

    oid: str  # sha256
    size: int


@dataclass(frozen=True)
class Lacking:
    """A question and its answer: which of these does the head not have?"""

    objects: tuple[str, ...] = ()
    large: tuple[LargeFile, ...] = ()  # asked: used by the tree; answered: neither here nor at the remote
    remote: str | None = None  # where large files may come from
