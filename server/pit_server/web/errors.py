"""Problems as pages: a sentence and a way out, or the way to sign in."""

from urllib.parse import urlencode

from flask import Response, redirect, request

from pit_protocol.problem import Problem
from pit_server.web.rendering import HEADERS, render

BY_SCRIPT = "Pit-Page"  # a header of requests that a script of the page makes


def is_page() -> bool:
    """Whether a person waits for a page, and no script for an answer."""
    of_web = (request.blueprint or "").startswith("web_")
    return of_web and BY_SCRIPT not in request.headers and request.method in ("GET", "POST")


def show_problem(problem: Problem) -> Response:
    """The page of an error; whoever has to sign in first comes back afterwards."""
    if problem.status != 401 or request.method != "GET":
        return render("problem.html", problem.status, problem=problem)
    here = request.full_path.rstrip("?")
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        # The browser keeps our cookie from a link on another site. A request of our own page has it.
        return Response(render("again.html", here=here).get_data(), headers={**HEADERS, "Refresh": "0"})
    return _redirect(f"/sign-in?{urlencode({'next': here})}")


def _redirect(where: str) -> Response:
    response = redirect(where, 303)
    response.headers["Cache-Control"] = "no-store"
    return response  # type: ignore[return-value]
