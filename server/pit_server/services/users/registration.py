"""Authentication: registration, login, and the setup code of the first admin."""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from pit_protocol.answers.users import IssuedToken
from pit_protocol.durations import DAY_S
from pit_protocol.messages.request_bodies import Login, Registration
from pit_protocol.problem import Problem
from pit_server.db.database import AnyRow, Database
from pit_server.db.models import Fact, User
from pit_server.services import audit
from pit_server.services.properties import read_email, read_some_text
from pit_server.services.users import accounts, tokens
from pit_server.services.users.password_cache import PasswordCache
from pit_server.services.users.passwords import Passwords
from pit_server.services.users.rate_limit import RateLimit, TooManyAttempts, network_of
from pit_server.services.users.tokens import Caller
from pit_server.services.validation import check_text

SETUP_CODE = "setup_code_sha256"
MAX_LABEL = 100
MAX_PASSWORD = 1024  # characters; longer ones are refused unread
ADDRESSES = 10  # that may use up their failed logins for one account
MOST_PLACES = 10_000
OPEN, APPROVE, CLOSED = "open", "approve", "closed"


class Authentication:
    """Registers and authenticates users; shared by all requests, as it counts failed attempts."""

    def __init__(
        self, database: Database, mode: str, *, cost: int, per_minute: int, token_days: float
    ) -> None:
        self._database, self.mode = database, mode
        self._token_s = token_days * DAY_S
        self.passwords = Passwords(cost)
        self._per_minute = per_minute
        self._rate_limit = RateLimit()
        self._known_places: OrderedDict[tuple[str, str], None] = OrderedDict()  # of users who logged in there
        self._password_cache = PasswordCache()

    def log_in(self, login: Login, address: str, *, now: float) -> IssuedToken:
        """Issue a token for the right password; the error does not reveal whether the name exists."""
        user = self._check(login, address, now=now)
        return self._issue(user.id, user.name, login.label, address, now=now)

    def authenticate(self, name: str, password: str, address: str, *, now: float) -> Caller:
        """Authenticate one request by password, without a token; with the same checks as `log_in`."""
        login = Login(name, password)
        _check_lengths(password, "")
        user = self._find(name)
        if user is None or not self._password_cache.knows(name, password, user.password_hash):
            user = self._check(login, address, now=now)
            self._password_cache.keep(name, password, user.password_hash)
        if not user.is_active:
            raise tokens.inactive(user.name)
        return Caller(user.id, None, user.name, user.full_name, user.is_admin)

    def confirm(self, name: str, password: str, address: str, *, now: float) -> None:
        """Check the current password of a user who has one; a stolen token alone must not change it."""
        user = self._find(name)
        if user is None or user.password_hash is None:
            return
        hint = "`pit set me password` asks for it; an admin can set a new one without"
        if not password:
            raise Problem("old_password", "a new password needs the current one", hint, status=403)
        try:
            self._check(Login(name, password), address, now=now)
        except TooManyAttempts:
            raise
        except Problem as problem:
            if problem.code != "bad_login":
                raise
            raise Problem("old_password", "this is not the current password", hint, status=403) from None

    def _find(self, name: str) -> AnyRow | None:
        if not _is_storable(name):
            return None
        columns = (User.id, User.name, User.full_name, User.password_hash, User.is_active, User.is_admin)
        with self._database.read() as session:
            return session.execute(
                select(*columns).where(User.name == name, User.removed_at.is_(None))
            ).one_or_none()

    def _check(self, login: Login, address: str, *, now: float) -> AnyRow:
        """The active user with this name and password; raises a Problem or TooManyAttempts."""
        _check_lengths(login.password, login.label)
        limits = self._limits(login.name, address)
        self._rate_limit.take(limits)
        user = self._find(login.name)
        # No session is open here, because bcrypt takes a quarter of a second.
        if not self.passwords.is_right(login.password, user.password_hash if user else None) or user is None:
            with self._database.write() as session:
                audit.note(
                    session,
                    audit.NOBODY,
                    "login refused",
                    f"user:{login.name[:64]}",
                    now=now,
                    address=address,
                )
            raise Problem("bad_login", "wrong user name or password", status=401)
        self._rate_limit.refund(limits)
        self._note_place(login.name, address)
        if not user.is_active:
            raise tokens.inactive(user.name)
        return user

    def _limits(self, name: str, address: str) -> dict[str, int]:
        """What a failed login counts for; others cannot lock a user out of where they logged in before."""
        place = network_of(address)
        limits = {f"address:{place}": self._per_minute}
        if (name, place) not in self._known_places:
            limits[f"name:{name[:64]}"] = ADDRESSES * self._per_minute
        return limits

    def _note_place(self, name: str, address: str) -> None:
        place = (name, network_of(address))
        self._known_places[place] = None
        self._known_places.move_to_end(place)
        while len(self._known_places) > MOST_PLACES:
            self._known_places.popitem(last=False)

    def register(self, wanted: Registration, address: str, *, now: float) -> IssuedToken | None:
        """Create an account; None if an admin has to approve it first."""
        _check_lengths(wanted.password, wanted.label)
        self._rate_limit.take({f"address:{network_of(address)}": self._per_minute})
        with self._database.read() as session:
            is_first = needs_setup(session)
        if not is_first and self.mode == CLOSED:
            raise Problem(
                "registration_closed", "registration is closed on this head", "ask its admin", status=403
            )
        hashed = self.passwords.make(wanted.password)
        with self._database.write() as session:
            if is_first:
                _use_setup_code(session, wanted.setup_code)
            is_active = is_first or self.mode == OPEN
            user = _add(
                session,
                wanted.name,
                now=now,
                full_name=read_some_text("full_name", wanted.full_name),
                email=read_email("email", wanted.email),
                password_hash=hashed,
                is_admin=is_first,
                is_active=is_active,
            )
            detail = "first admin" if is_first else "" if is_active else "waits for approval"
            audit.note(
                session,
                wanted.name,
                "register",
                f"user:{wanted.name}",
                now=now,
                detail=detail,
                address=address,
            )
        if not is_active:
            return None
        return self._issue(user.id, user.name, wanted.label, address, now=now)

    def check_setup_code(self, code: str, address: str) -> None:
        """Raise a Problem if a first user could not register with this code."""
        self._rate_limit.take(limits := {f"address:{network_of(address)}": self._per_minute})
        with self._database.read() as session:
            _find_setup_code(session, code)
        self._rate_limit.refund(limits)

    def _issue(self, user_id: int, name: str, label: str, address: str, *, now: float) -> IssuedToken:
        expires_at = now + self._token_s
        with self._database.write() as session:
            token_id, text = tokens.issue(
                session, user_id=user_id, now=now, expires_at=expires_at, label=label
            )
            audit.note(session, name, "login", f"token:{token_id}", now=now, detail=label, address=address)
        return IssuedToken(name, token_id, text, expires_at)


def _add(session: Session, name: str, *, now: float, **columns: Any) -> User:
    try:
        return accounts.add(session, name, now=now, **columns)
    except IntegrityError:
        raise accounts.taken(name) from None  # by a concurrent request


def needs_setup(session: Session) -> bool:
    """Whether there has never been a user."""
    return session.execute(select(func.count()).select_from(User)).scalar_one() == 0


def make_setup_code(session: Session) -> str | None:
    """Create the code that the first user needs to register; None if there are users."""
    if not needs_setup(session):
        return None
    code = secrets.token_hex(8)
    session.merge(Fact(name=SETUP_CODE, value=_digest(code)))
    return code


def _use_setup_code(session: Session, code: str) -> None:
    session.delete(_find_setup_code(session, code, lock=True))


def _find_setup_code(session: Session, code: str, *, lock: bool = False) -> Fact:
    fact = session.get(Fact, SETUP_CODE, with_for_update=lock)
    # None: another user was first.
    if fact is None or not hmac.compare_digest(fact.value, _digest(code.strip())):
        raise Problem(
            "bad_setup_code",
            "that is not the setup code, which the first user needs",
            "the head's log has it, in the lines of its last start",
            status=403,
        )
    return fact


def _check_lengths(password: str, label: str) -> None:
    check_text("label", label, MAX_LABEL)
    if len(password) > MAX_PASSWORD:
        raise Problem("bad_password", "this cannot be a password", "it has at most 72 bytes", status=422)


def _is_storable(name: str) -> bool:
    try:
        check_text("name", name, 64)
    except Problem:
        return False
    return True


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()
