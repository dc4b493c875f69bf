"""The head itself, users, groups, tokens, and the audit."""

from typing import Annotated

from msgspec import UNSET, UnsetType

from pit_protocol.answers.files import TrashEntry
from pit_protocol.wire import SECRET, Answer, Float, Int


class About(Answer, frozen=True):
    """The head itself, for anyone who asks."""

    name: str  # `pit`
    version: str
    cluster: str
    registration: str  # `open`, `approve` or `closed`
    needs_setup: bool  # there is no user yet


class Health(Answer, frozen=True):
    """What a probe gets."""

    status: str  # `ok`


class IssuedToken(Answer, frozen=True):
    """What a client gets that logged in."""

    name: str  # of the user
    token_id: Int
    token: Annotated[str, SECRET]
    expires_at: Float


class SetupCodeChecked(Answer, frozen=True):
    """What the first user gets for the right setup code."""

    valid: bool


class AwaitingApproval(Answer, frozen=True):
    """What a new user gets where an admin must approve the account first."""

    name: str
    message: str


class User(Answer, frozen=True):
    """What all users may see comes first, the rest is for the user and for admins."""

    name: str
    full_name: str
    groups: list[str]  # that the caller shares; all of them for the user and for admins
    email: str | UnsetType = UNSET
    admin: bool | UnsetType = UNSET
    active: bool | UnsetType = UNSET
    state: str | UnsetType = UNSET  # `active`, `inactive` or `unapproved`
    autoshare: list[str] | UnsetType = UNSET
    git: list[str] | UnsetType = UNSET  # hosts that a credential was given for
    uid: Int | UnsetType = UNSET
    quota: str | UnsetType = UNSET
    share_group: str | UnsetType = UNSET  # that is charged for the user's jobs
    max_priority: str | UnsetType = UNSET  # that the user may give their jobs
    max_running: str | UnsetType = UNSET  # limits that an admin has set; empty: the default
    max_waiting: str | UnsetType = UNSET
    max_gpus: str | UnsetType = UNSET
    max_job_gpus: str | UnsetType = UNSET
    max_time: str | UnsetType = UNSET
    max_gpu_hours: str | UnsetType = UNSET
    limits: list[str] | UnsetType = UNSET  # all that apply, with what is used of them
    notify: str | UnsetType = UNSET  # events of their jobs that the user is told of
    channels: list[str] | UnsetType = UNSET  # by which: `mail`, `webhook`, `slack`, `telegram`
    outbox: list[str] | UnsetType = UNSET  # messages that wait or could not be sent, by channel
    created_at: Float | UnsetType = UNSET
    jobs: dict[str, list[Int]] | UnsetType = UNSET  # if not active: those that are held, running, stopping


class UserList(Answer, frozen=True):
    users: list[User]


class Group(Answer, frozen=True):
    """What all users may see comes first, the rest is for members and admins."""

    name: str
    title: str
    nodes: list[str]  # kept for it: `n0`, or `n0:1` for one resource
    members: list[str] | UnsetType = UNSET
    gid: Int | UnsetType = UNSET
    quota: str | UnsetType = UNSET
    max_running: str | UnsetType = UNSET  # limits that an admin has set
    max_waiting: str | UnsetType = UNSET
    max_gpus: str | UnsetType = UNSET
    max_job_gpus: str | UnsetType = UNSET
    max_time: str | UnsetType = UNSET
    max_gpu_hours: str | UnsetType = UNSET
    limits: list[str] | UnsetType = UNSET  # all that apply, with what is used of them


class GroupList(Answer, frozen=True):
    groups: list[Group]


class Removed(Answer, frozen=True):
    """A user, group or alias that is gone; a user or group is in the trash."""

    name: str
    trash: TrashEntry | None = None


class Token(Answer, frozen=True):
    """A login; its secret is not shown."""

    id: Int
    user: str
    label: str
    created_at: Float
    expires_at: Float | None
    last_used_at: Float | None
    current: bool  # it is the one that this request came with


class TokenList(Answer, frozen=True):
    tokens: list[Token]


class TokenRevoked(Answer, frozen=True):
    id: Int


class AuditEntry(Answer, frozen=True):
    id: Int
    at: Float
    actor: str
    act: str
    object: str
    detail: str
    address: str


class AuditLog(Answer, frozen=True):
    entries: list[AuditEntry]
