"""Signing in: the account of `pit login`, a cookie for this browser alone."""

from collections.abc import Callable

import pytest
from flask import Flask

from pit_server.api.http.session_cookie import NAME
from tests.head.web.conftest import PASSWORD, Browser
from tests.support.clusters.head import ONE_DATABASE, Person

pytestmark = ONE_DATABASE


def test_signing_in_leads_back_to_the_page_that_was_asked_for(browser: Browser, anna: Person) -> None:
    anna.ok(anna.patch("/users/me", password=PASSWORD))
    asked = browser.get("/jobs?state=running")
    assert (asked.status_code, asked.location) == (303, "/sign-in?next=%2Fjobs%3Fstate%3Drunning")
    answer = browser.sign_in("anna", next="/jobs?state=running")
    assert (answer.status_code, answer.location) == (303, "/jobs?state=running")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    assert "signed in as anna" in browser.page("/")


@pytest.mark.parametrize("place", ["//evil.example", "/\\evil.example", "https://evil.example", "/a\nb"])
def test_signing_in_leads_to_no_other_site(browser: Browser, anna: Person, place: str) -> None:
    anna.ok(anna.patch("/users/me", password=PASSWORD))
    assert browser.sign_in("anna", next=place).location == "/"


def test_a_wrong_password_keeps_the_name_and_is_limited(browser: Browser, anna: Person) -> None:
    anna.ok(anna.patch("/users/me", password=PASSWORD))
    answer = browser.sign_in("anna", "guess <b>")
    assert answer.status_code == 401
    assert "wrong user name or password" in answer.text and 'value="anna"' in answer.text
    codes = [browser.sign_in("anna", "guess").status_code for _ in range(12)]
    assert codes[-1] == 429, "as for `pit login`"


def test_signing_out_revokes_the_token(a_browser: Callable[[Person], Browser], anna: Person) -> None:
    browser = a_browser(anna)
    before = len(anna.ok(anna.get("/tokens"))["tokens"])
    assert browser.post("/sign-out").location == "/sign-in"
    assert browser.get("/jobs").status_code == 303
    assert len(anna.ok(anna.get("/tokens"))["tokens"]) == before - 1


@pytest.mark.threat("S60")
def test_the_cookie_counts_only_for_requests_of_our_own_page(
    a_browser: Callable[[Person], Browser], anna: Person
) -> None:
    browser = a_browser(anna)
    for site, code in {"same-origin": 200, "none": 200, "same-site": 401, "cross-site": 401}.items():
        answer = browser.get("/api/v1/jobs", site, **{"Sec-Fetch-Mode": "cors"})
        assert answer.status_code == code, site
    elsewhere = {"Origin": "https://evil.example"}
    assert browser.post("/api/v1/jobs/1/stop", headers=elsewhere).status_code == 403
    assert browser.post("/api/v1/jobs/1/stop", "cross-site").status_code == 403
    assert browser.post("/sign-out", "cross-site").status_code == 403
    assert browser.post("/sign-in", "cross-site", data={"name": "anna"}).status_code == 403


def test_a_link_on_another_site_reaches_a_page_after_one_more_request(app: Flask, browser: Browser) -> None:
    answer = browser.get("/jobs/7", "cross-site")  # the browser has kept the cookie to itself
    assert (answer.status_code, answer.headers["Refresh"]) == (200, "0")
    assert app.test_client().get("/jobs/7").status_code == 303


def test_over_tls_the_cookie_has_a_name_that_no_other_host_can_set(app: Flask, anna: Person) -> None:
    anna.ok(anna.patch("/users/me", password=PASSWORD))
    form = {"name": "anna", "password": PASSWORD}
    answer = app.test_client().post("/sign-in", data=form, base_url="https://localhost")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"__Host-{NAME}=") and "Secure" in cookie


def test_a_script_gets_answers_and_no_pages(browser: Browser, anna: Person) -> None:
    anna.ok(anna.patch("/users/me", password=PASSWORD))
    by_script = {"Pit-Page": "script"}
    assert browser.get("/jobs", **by_script).json["code"] == "no_token"  # type: ignore[index]
    form = {"name": "anna", "password": "guess"}
    assert browser.post("/sign-in", headers=by_script, data=form).json["code"] == "bad_login"  # type: ignore[index]
    form["password"] = PASSWORD
    assert browser.post("/sign-in", headers=by_script, data=form).status_code == 204
    assert browser.get("/jobs", **by_script).status_code == 200
