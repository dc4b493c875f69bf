"""Logging in, and registering: the questions that a new machine or a new user is asked.

The password is asked for before anything is said of the name: the head must not tell who has an account.
"""

import socket
from dataclasses import replace

from pit import output, terminal
from pit.accounts import Account, is_token, keep_account, user_file
from pit.connection import Connection
from pit.head import Head, Json
from pit_protocol.problem import Problem

MOST_TRIES = 3
LONGEST_LABEL = 100


def log_in(connection: Connection, user: str | None = None) -> Connection:
    """Ask for all it takes, keep the token, and return the connection with it; needs a terminal."""
    with Head(_bare(connection)) as head:
        about = check_head(head)
        if about.get("needs_setup"):
            output.tell(f"the head at {connection.url} has no user yet; the first becomes its admin")
            return _keep(connection, _register(head, user or terminal.ask("User name"), is_first=True))
        return _keep(connection, _try_names(head, about, user))


def log_in_by_token(connection: Connection, token: str) -> Connection:
    """Keep a token that was made elsewhere, if the head accepts it."""
    if not is_token(token):
        raise Problem(
            "no_token", "that is no token", "`pit-head add-user NAME` on the head's machine prints one"
        )
    try:
        with Head(replace(_bare(connection), token=token)) as head:
            check_head(head)
            name = head.me()["name"]
    except Problem as problem:
        if problem.status != 401:
            raise
        raise Problem(
            "bad_token",
            f"the head at {connection.url} does not accept this token",
            "`pit-head add-user NAME` on the head's machine prints one",
            status=401,
        ) from problem
    return _keep(connection, {"name": name, "token": token})


def check_head(head: Head) -> Json:
    """What the head says of itself; raises a Problem if it is none."""
    about = head.about()
    if about.get("name") != "pit":
        url = head.connection.url
        raise Problem("not_a_head", f"{url} does not answer as a pit head does", "check the address")
    return about


def _try_names(head: Head, about: Json, user: str | None) -> Json:
    can_register = about.get("registration") != "closed"
    for _ in range(MOST_TRIES):
        name = user or terminal.ask("User name, known or new" if can_register else "User name")
        password = terminal.ask_hidden("Password")
        terminal.check_password(password)
        try:
            return head.log_in(name, password, _label())
        except Problem as problem:
            if problem.code != "bad_login":
                raise
        output.tell(f"the head knows no user {name} with this password")
        if not can_register:
            output.tell("this head takes no new users; its admin can add you")
        elif terminal.agrees(f"Register {name} as a new user?"):
            return _register(head, name)
    raise Problem("bad_login", f"no login after {MOST_TRIES} tries", "`pit login` begins again", status=401)


def _register(head: Head, name: str, *, is_first: bool = False) -> Json:
    fields = {"name": name, "label": _label()}
    if is_first:
        fields["setup_code"] = terminal.ask("Setup code, which the head printed on its console")
    fields["full_name"] = terminal.ask("Full name")
    fields["email"] = terminal.ask_if_any("E-mail address")
    answer = _register_with_password(head, fields)
    if "token" not in answer:
        raise Problem(
            "unapproved",
            f"{name} is registered, and an admin has to approve it before you can log in",
            f"the admin types `pit set user:{name} active=yes`; then log in once more",
        )
    return answer


def _register_with_password(head: Head, fields: Json) -> Json:
    """Ask for passwords until the head takes one."""
    while True:
        try:
            return head.register({**fields, "password": terminal.ask_new_password()})
        except Problem as problem:
            if problem.code != "bad_password":
                raise
            output.tell(problem.message, problem.hint)


def _keep(connection: Connection, answer: Json) -> Connection:
    name, token = str(answer.get("name")), str(answer.get("token"))
    if len(name.split()) != 1 or not is_token(token):
        raise Problem("not_a_head", f"{connection.url} gave no user name and token", "check the address")
    keep_account(connection.address.keys, Account(name, token))
    return replace(connection, token=token, token_file=user_file(), is_embedded=False)


def _label() -> str:
    return socket.gethostname()[:LONGEST_LABEL]


def _bare(connection: Connection) -> Connection:
    return replace(connection, token=None, token_file=None)
