"""Secrets that users give the head to use on their behalf: encrypted in the database."""

import base64
import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.db.models import Secret
from pit_server.store.remotes.credential import KEY_BEGINS, Credential
from pit_server.store.remotes.remote import HOST, Remote

KEY_FILE = "secret.key"
KEY_BYTES, NONCE_BYTES = 32, 12
PREFIX = "git."
MAX_SECRET = 16 * 1024
PLACE = re.compile(rf"(?:{HOST.pattern})(?::[0-9]{{1,5}})?")


def make_key(home: Path) -> None:
    """Create the key that encrypts all secrets of this head, if there is none."""
    try:
        descriptor = os.open(home / KEY_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read(name: str, text: str) -> str:
    """Parse the value of `git.HOST`: a token, `USER:TOKEN` or a private key; empty removes it."""
    if not PLACE.fullmatch(name.removeprefix(PREFIX).lower()):
        raise Problem(
            "bad_host",
            f"{name[:80]!r} does not name a host",
            "write git.HOST=…, or git.HOST:PORT=…",
            status=422,
        )
    text = text.strip()
    if len(text) > MAX_SECRET:
        raise Problem("bad_secret", f"the value of {name} is too long", status=422)
    if text.startswith(KEY_BEGINS):
        return _read_key(name, text.replace("\r\n", "\n") + "\n")
    if text and (not text.isascii() or not text.isprintable() or " " in text or text.startswith(":")):
        raise Problem(
            "bad_secret",
            f"the value of {name} is neither a token nor a private key",
            "give TOKEN, USER:TOKEN, or the text of a private key for ssh",
            status=422,
        )
    return text


def put(session: Session, home: Path, user_id: int, name: str, text: str) -> None:
    """Encrypt and store a secret; an empty one is deleted."""
    session.execute(delete(Secret).where(Secret.user_id == user_id, Secret.name == name))
    if text:
        session.add(Secret(user_id=user_id, name=name, sealed=seal(home, user_id, name, text)))
    session.flush()


def delete_all(session: Session, user_id: int) -> None:
    session.execute(delete(Secret).where(Secret.user_id == user_id))


def hosts(session: Session) -> dict[int, list[str]]:
    """The hosts each user has a credential for."""
    found: dict[int, list[str]] = {}
    query = select(Secret.user_id, Secret.name).where(Secret.name.startswith(PREFIX)).order_by(Secret.name)
    for user_id, name in session.execute(query):
        found.setdefault(user_id, []).append(name.removeprefix(PREFIX))
    return found


def get_credential(session: Session, home: Path, user_id: int, remote: Remote | None) -> Credential | None:
    """The user's credential for exactly the remote's host, if the protocol can use it."""
    if remote is None or not remote.host:
        return None
    name = PREFIX + remote.place
    sealed = session.execute(
        select(Secret.sealed).where(Secret.user_id == user_id, Secret.name == name)
    ).scalar_one_or_none()
    if sealed is None:
        return None
    credential = Credential(unseal(home, user_id, name, sealed))
    return credential if credential.suits(remote.protocol) else None


def _read_key(name: str, text: str) -> str:
    for load in (serialization.load_ssh_private_key, serialization.load_pem_private_key):
        try:
            load(text.encode(), None)
        except TypeError:
            break  # it has a passphrase
        except (ValueError, UnsupportedAlgorithm):
            continue
        return text
    raise Problem(
        "bad_secret",
        f"the value of {name} is not a private key without passphrase",
        "`ssh-keygen -N '' -f FILE` makes one for this purpose alone",
        status=422,
    )


def mark(home: Path, name: str, text: str) -> str:
    """An HMAC to compare values by; without the head's key it cannot be guessed from."""
    return hmac.new(_key(home), f"{name}={text}".encode(), hashlib.sha256).hexdigest()


def seal(home: Path, user_id: int, name: str, text: str) -> str:
    nonce = secrets.token_bytes(NONCE_BYTES)
    sealed = AESGCM(_key(home)).encrypt(nonce, text.encode(), _bound_to(user_id, name))
    return base64.b64encode(nonce + sealed).decode()


def unseal(home: Path, user_id: int, name: str, sealed: str) -> str:
    data = base64.b64decode(sealed)
    try:
        opened = AESGCM(_key(home)).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], _bound_to(user_id, name))
    except InvalidTag:
        raise Problem(
            "sealed",
            f"{name} cannot be decrypted: the head has another {KEY_FILE} now",
            f"`pit set me {name}=…` again",
        ) from None
    return opened.decode()


def _bound_to(user_id: int, name: str) -> bytes:
    """The associated data: a row copied to another user cannot be decrypted."""
    return f"{user_id}:{name}".encode()


def _key(home: Path) -> bytes:
    return base64.b64decode((home / KEY_FILE).read_bytes())
