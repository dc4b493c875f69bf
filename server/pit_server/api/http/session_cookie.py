"""The session of a web page: a user's token in a cookie that no script and no other site can use."""

from urllib.parse import urlsplit

from flask import Request, Response

NAME = "pit_session"
SECURE_NAME = f"__Host-{NAME}"  # browsers accept this name only over TLS, without a domain
MOST_S = 30 * 24 * 3600
OWN_SITE = ("same-origin", "none")  # of Sec-Fetch-Site: our own page, or a person who typed the address


def get_token(request: Request) -> str:
    """The token in the request's cookie; empty if there is none, or if another site's page sent it."""
    name = SECURE_NAME if request.is_secure else NAME
    return request.cookies.get(name, "") if _is_own(request) else ""


def keep_token(request: Request, response: Response, token: str, seconds: float) -> None:
    """Give the browser the token for so long."""
    response.set_cookie(
        SECURE_NAME if request.is_secure else NAME,
        token,
        max_age=int(min(seconds, MOST_S)),
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
        path="/",
    )


def drop_token(request: Request, response: Response) -> None:
    name = SECURE_NAME if request.is_secure else NAME
    response.delete_cookie(name, secure=request.is_secure, httponly=True, samesite="Strict", path="/")


def _is_own(request: Request) -> bool:
    """SameSite lets other ports and other names of the same domain through, so the origin counts too."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        is_link = request.method == "GET" and request.headers.get("Sec-Fetch-Mode") == "navigate"
        return site in OWN_SITE or is_link
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc.lower() == request.host.lower()
