"""Bodies of requests that are neither a submission nor a worker's: logging in, properties, paths."""

from typing import Annotated

from msgspec import field

from pit_protocol.wire import SECRET, Message


class Login(Message, frozen=True):
    name: str
    password: Annotated[str, SECRET]
    label: str = ""  # of the token: from which machine


class Registration(Message, frozen=True):
    name: str
    full_name: str
    password: Annotated[str, SECRET]
    email: str = ""
    label: str = ""
    setup_code: Annotated[str, SECRET] = ""


class SetupCode(Message, frozen=True):
    """What the first user has to know."""

    setup_code: Annotated[str, SECRET]


class Properties(Message, frozen=True):
    """Properties to set, as a user types them; a value may be a password."""

    set: Annotated[dict[str, str], SECRET] = field(default_factory=dict)


class Paths(Message, frozen=True):
    """Files to pack; each path is percent-encoded."""

    paths: list[str]
