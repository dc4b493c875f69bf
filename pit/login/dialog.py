"""Logging in, and registering: the questions that a new machine or a new user is asked.

The password is asked for before anything is said of the name: the head must not tell who has an account.
"""

import socket
from dataclasses import replace

from msgspec import structs

from pit.connect.connection import Connection
from pit.connect.token_store import Account, is_token, keep_account, user_file
from pit.head.client import Head
from pit.ui import output, prompt
from pit_protocol.answers.users import About, AwaitingApproval, IssuedToken
from pit_protocol.messages.request_bodies import Login, Registration
from pit_protocol.problem import Problem

MOST_TRIES = 3
LONGEST_LABEL = 100


def log_in(connection: Connection, user: str | None = None) -> Connection:
    """Ask for name and password, store the token, and return the connection with it; needs a terminal."""
    with Head(_bare(connection)) as head:
        about = check_head(head)
        if about.needs_setup:
            output.note(f"the head at {connection.url} has no user yet; the first becomes its admin")
            issued = _register_first(head, user)
        else:
            issued = _try_names(head, about, user)
    return _keep(connection, issued.name, issued.token)


def log_in_by_token(connection: Connection, token: str) -> Connection:
    """Store a token that was made elsewhere, if the head accepts it."""
    if not is_token(token):
        raise Problem(
            "no_token", "that is not a token", "`pit-head add-user NAME` on the head's machine prints one"
        )
    try:
        with Head(replace(_bare(connection), token=token)) as head:
            check_head(head)
            name = head.me().name
    except Problem as problem:
        if problem.status != 401:
            raise
        raise Problem(
            "bad_token",
            f"the head at {connection.url} does not accept this token",
            "`pit-head add-user NAME` on the head's machine prints one",
            status=401,
        ) from problem
    return _keep(connection, name, token)


def check_head(head: Head) -> About:
    """What the head says about itself; raises a Problem if it is not a pit head."""
    about = head.about()
    if about.name != "pit":
        url = head.connection.url
        raise Problem("not_a_head", f"{url} does not answer as a pit head does", "check the address")
    return about


def _try_names(head: Head, about: About, user: str | None) -> IssuedToken:
    can_register = about.registration != "closed"
    for _ in range(MOST_TRIES):
        name = user or prompt.ask("User name (existing or new)" if can_register else "User name")
        password = prompt.ask_hidden("Password")
        prompt.check_password(password)
        try:
            return head.log_in(Login(name, password, _label()))
        except Problem as problem:
            if problem.code != "bad_login":
                raise
        output.note(f"the head knows no user {name} with this password")
        if not can_register:
            output.note("this head takes no new users; its admin can add you")
        elif prompt.confirm(f"Register {name} as a new user?"):
            return _register(head, name, password=password)
    raise Problem("bad_login", f"no login after {MOST_TRIES} tries", "`pit login` begins again", status=401)


def _register_first(head: Head, user: str | None) -> IssuedToken:
    """Register the first user; a wrong setup code is told before all other questions."""
    for _ in range(MOST_TRIES):
        code = prompt.ask("Setup code (in the log of the head)")
        try:
            head.check_setup_code(code)
        except Problem as problem:
            if problem.code != "bad_setup_code":
                raise
            refusal = problem
            output.note(problem.message, problem.hint)
        else:
            return _register(head, user or prompt.ask("User name"), code=code)
    raise refusal


def _register(head: Head, name: str, *, code: str = "", password: str = "") -> IssuedToken:
    """Register with the password that was typed already, if it is repeated, else with a new one."""
    full_name = prompt.ask("Full name")
    email = prompt.ask_optional("E-mail address")
    answer = _register_with_password(
        head, Registration(name, full_name, password, email=email, label=_label(), setup_code=code)
    )
    if isinstance(answer, AwaitingApproval):
        raise Problem(
            "unapproved",
            f"{name} is registered, and an admin has to approve it before you can log in",
            f"the admin types `pit set user:{name} active=yes`; then run `pit login`",
        )
    return answer


def _register_with_password(head: Head, wanted: Registration) -> IssuedToken | AwaitingApproval:
    """Ask for passwords until the head accepts one; the first is the one that is known already."""
    password = wanted.password
    if password and not prompt.repeats(password):
        output.note("that is another password")
        password = ""
    while True:
        try:
            return head.register(structs.replace(wanted, password=password or prompt.ask_new_password()))
        except Problem as problem:
            if problem.code != "bad_password":
                raise
            output.note(problem.message, problem.hint)
            password = ""


def _keep(connection: Connection, name: str, token: str) -> Connection:
    if len(name.split()) != 1 or not is_token(token):
        raise Problem("not_a_head", f"{connection.url} gave no user name and token", "check the address")
    keep_account(connection.address.keys, Account(name, token))
    return replace(connection, token=token, token_file=user_file(), is_embedded=False)


def _label() -> str:
    return socket.gethostname()[:LONGEST_LABEL]


def _bare(connection: Connection) -> Connection:
    return replace(connection, token=None, token_file=None)
