"""Pages: who may see them, what is on them, and that nothing on them runs."""

import html
from collections.abc import Callable, Iterator
from html.parser import HTMLParser

import pytest
from flask import Flask
from werkzeug.routing import Rule

from pit_protocol.states import JobState, Outcome
from pit_server.api.http.guard import Role
from pit_server.context import Head
from pit_server.db.models import Job
from pit_server.web import assets
from pit_server.web.rendering import POLICY
from tests.head.web.conftest import Browser
from tests.support.clusters.head import ONE_DATABASE, Person, Worker

pytestmark = ONE_DATABASE
HOSTILE = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)> \u202eevil 🎉"


class Tags(HTMLParser):
    """Finds what could run: scripts in the page, handlers, styles, images and addresses of other kinds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.bad: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("img", "iframe", "object", "style", "base") or (tag == "script" and "src" not in values):
            self.bad.append(tag)
        self.bad += [name for name in values if name.startswith("on") or name == "style"]
        places = [values.get(name) or "/" for name in ("href", "src", "action")]
        self.bad += [place for place in places if not place.startswith(("/", "#"))]


def pages(app: Flask, *roles: Role) -> Iterator[Rule]:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        is_page = rule.endpoint.startswith("web_") and "GET" in (rule.methods or ())
        if is_page and getattr(view, "role", None) in roles:
            yield rule


def address(rule: Rule, number: int = 1) -> str:
    return rule.rule.replace("<job:number>", str(number))


def test_every_page_needs_a_user(app: Flask, browser: Browser) -> None:
    found = {address(rule): browser.get(address(rule)).location for rule in pages(app, Role.USER, Role.ADMIN)}
    assert len(found) > 5
    assert [path for path, location in found.items() if not str(location).startswith("/sign-in")] == []


def test_every_page_shows_something_without_and_with_a_job(
    app: Flask, a_browser: Callable[[Person], Browser], root: Person, a_node: Callable[..., Worker]
) -> None:
    browser = a_browser(root)
    for rule in pages(app, Role.USER, Role.ADMIN):
        if "<" not in rule.rule and rule.endpoint != "web_events.show":
            assert "<h1>" in browser.page(rule.rule), rule.rule
    a_node(gpus={"a100": 2})
    number = root.submit(title="First light")
    for rule in pages(app, Role.USER, Role.ADMIN):
        if rule.endpoint not in ("web_events.show", "web_job.download_log"):
            answer = browser.get(address(rule, number))
            assert answer.status_code == 200 and "<h1>" in answer.text, rule.rule


@pytest.mark.threat("S60")
def test_no_page_may_run_anything_but_our_own_scripts(
    app: Flask, a_browser: Callable[[Person], Browser], root: Person, node: Worker
) -> None:
    browser = a_browser(root)
    number = root.submit(title=HOSTILE, comment=HOSTILE)
    assert "'unsafe" not in POLICY and "data:" not in POLICY
    for rule in pages(app, Role.USER, Role.ADMIN):
        if rule.endpoint == "web_events.show":
            continue
        answer = browser.get(address(rule, number))
        assert answer.headers["Content-Security-Policy"] == POLICY, rule.rule
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        if answer.mimetype == "text/html":
            found = Tags(answer.text)
            assert not found.bad, (rule.rule, found.bad)
    assert "&lt;script&gt;alert(1)" in browser.page("/jobs")


def test_a_page_of_another_users_job_does_not_exist(
    a_browser: Callable[[Person], Browser], anna: Person, a_user: Callable[..., Person], node: Worker
) -> None:
    number = anna.submit()
    browser = a_browser(a_user("ben"))
    for tab in ("", "/code", "/files", "/results", "/log.txt"):
        answer = browser.get(f"/jobs/{number}{tab}")
        assert answer.status_code == 404 and "There is no job" in answer.text
    assert browser.get(f"/events?job={number}&wait_s=1").status_code == 404


def test_jobs_come_in_pages_with_their_filter_in_the_address(
    head: Head, a_browser: Callable[[Person], Browser], anna: Person, node: Worker
) -> None:
    numbers = [anna.submit(title=f"number {i}") for i in range(3)]
    with head.database.write() as session:
        first = session.get_one(Job, numbers[0])
        first.state, first.outcome, first.reason = JobState.ENDED, Outcome.FAILED, "exit code 3"
        template = {c.name: getattr(first, c.name) for c in Job.__table__.columns if c.name != "id"}
        session.add_all(
            Job(**template | {"submission_key": f"k{i}", "title": f"more {i}"}) for i in range(120)
        )
    browser = a_browser(anna)
    page = browser.page("/jobs")
    assert page.count("<tr data-row") == 50 and "123 in all" in page and "1–50 of 123" in page
    assert "/jobs?offset=50" in page
    last = browser.page("/jobs?offset=100&outcome=failed")
    assert last.count("<tr data-row") == 21 and "/jobs?outcome=failed&amp;offset=50" in last
    assert browser.page("/jobs?q=number").count("<tr data-row") == 3
    assert "No job matches" in browser.page("/jobs?q=nothing+like+it")
    assert browser.get(f"/jobs?q=%23{numbers[1]}").location == f"/jobs/{numbers[1]}"


def test_a_waiting_job_says_why_and_shows_its_command(
    head: Head, a_browser: Callable[[Person], Browser], anna: Person, a_node: Callable[..., Worker]
) -> None:
    a_node(gpus={"a100": 2})
    number = anna.submit(title="it's wide", request="[2:a100]", command="sleep 9", time="2h")
    text = a_browser(anna).page(f"/jobs/{number}")
    assert "[2:a100]" in text and "pit checkout" in text
    command = """pit run 'it'"'"'s wide' '[2:a100]' -d 'sleep 9' --time 2h"""
    assert command in html.unescape(text)


def test_scripts_and_styles_are_kept_by_browsers_until_they_change(app: Flask) -> None:
    client = app.test_client()
    for name in ("page.js", "base.css", "vendor/uplot.min.js"):
        answer = client.get(assets.url(name), headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200 and "immutable" in answer.headers["Cache-Control"]
        assert answer.headers["Content-Encoding"] == "gzip"
    assert client.get("/static/page.js").headers["Cache-Control"] == "no-cache"
    for name in ("../rendering.py", "vendor/../page.js", "%2e%2e/__init__.py", "vendor/lock.json"):
        assert client.get(f"/static/{name}").status_code == 404


def test_the_scripts_of_one_page_are_small(app: Flask) -> None:
    client = app.test_client()
    names = [name for name in assets.list_names() if name.endswith(".js")]
    packed = {"Accept-Encoding": "gzip"}
    sizes = [len(client.get(f"/static/{name}", headers=packed).data) for name in names]
    assert sum(sizes) < 150_000, "all scripts together, packed"
