"""How a message leaves the head: by mail, by a signed webhook, or to a chat.

What goes to an address of the user's choice obeys the rules for remotes (`store/remotes`).
"""

import hashlib
import hmac
import json
import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote, urlsplit

from pit_protocol.notifications import MAIL, SLACK, TELEGRAM, WEBHOOK
from pit_protocol.problem import Problem
from pit_server.cancellation import Cancelled, limited
from pit_server.services.notifications import messages
from pit_server.settings import Settings
from pit_server.store.remotes import http

TIMEOUT_S = 15.0
SIGNATURE = "Pit-Signature"
ID_HEADER, EVENT_HEADER = "Pit-Delivery", "Pit-Event"


class Undelivered(Exception):
    """The receiver did not take the message; says why, without secrets."""


def deliver(
    settings: Settings,
    channel: str,
    value: str,
    key: str,
    message: Mapping[str, Any],
    *,
    signs: str,
    now: float,
) -> None:
    """Send a message once; `value` is what the user set for the channel, for mail the address."""
    if channel == MAIL:
        _mail(settings, value, key, message)
        return
    headers = {"Content-Type": "application/json", "User-Agent": "pit", ID_HEADER: key}
    if channel == WEBHOOK:
        body = _encode(messages.record(key, message))
        headers |= {EVENT_HEADER: message["event"], SIGNATURE: sign(signs, body, now)}
        _post(settings, value, headers, body)
    elif channel == SLACK:
        _post(settings, value, headers, _encode({"text": messages.text(message)}))
    elif channel == TELEGRAM:
        token, _, chat = value.rpartition("/")
        body = _encode({"chat_id": chat, "text": messages.text(message)})
        _post(settings, f"{settings.telegram_url.rstrip('/')}/bot{token}/sendMessage", headers, body)


def sign(key: str, body: bytes, now: float) -> str:
    """`t=SECONDS,v1=HEX`: an HMAC over the time and the body, so that neither can be replaced."""
    stamp = str(int(now))
    mac = hmac.new(key.encode(), stamp.encode() + b"." + body, hashlib.sha256)
    return f"t={stamp},v1={mac.hexdigest()}"


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _post(settings: Settings, url: str, headers: Mapping[str, str], body: bytes) -> None:
    host = http.origin(url)[1]
    try:
        with (
            limited(TIMEOUT_S, what=f"the answer of {host}"),
            http.ask(settings, "POST", url, headers, body) as response,
        ):
            status = response.status
    except Cancelled as cancelled:
        raise Undelivered(cancelled.problem.message) from None
    except Problem as problem:
        raise Undelivered(problem.message) from None
    if not 200 <= status < 300:
        raise Undelivered(f"{host} answered {status}")


def _mail(settings: Settings, address: str, key: str, message: Mapping[str, Any]) -> None:
    if not settings.smtp_url:
        raise Undelivered("this head sends no mail: its setting smtp_url is empty")
    mail = EmailMessage()
    mail["From"] = settings.mail_from
    mail["To"] = address
    mail["Subject"] = messages.subject(message)
    mail["Date"] = formatdate(message["at"])
    mail["Message-ID"] = f"<{key}@{settings.mail_from.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(messages.text(message) + "\n")
    try:
        _send_mail(settings.smtp_url, mail)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        code = f" {error.smtp_code}" if isinstance(error, smtplib.SMTPResponseException) else ""
        raise Undelivered(
            f"the mail server refused or did not answer: {type(error).__name__}{code}"
        ) from None


def _send_mail(url: str, mail: EmailMessage) -> None:
    parts = urlsplit(url)
    host, context = parts.hostname or "localhost", ssl.create_default_context()
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, parts.port or 465, timeout=TIMEOUT_S, context=context)
    else:
        server = smtplib.SMTP(host, parts.port or 25, timeout=TIMEOUT_S)
    with server:
        server.ehlo()
        if parts.scheme == "smtp" and (parts.username or server.has_extn("starttls")):
            server.starttls(context=context)  # a password never travels without it
        if parts.username:
            server.login(unquote(parts.username), unquote(parts.password or ""))
        server.send_message(mail)
