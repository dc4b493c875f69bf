"""A browser without scripts: it keeps cookies, and sends what browsers send with every request."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from tests.support.clusters.head import Person

PASSWORD = "correct horse"


class Browser:
    def __init__(self, app: Flask) -> None:
        self._client = app.test_client()

    def get(self, path: str, site: str = "none", **headers: str) -> TestResponse:
        sent = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", **headers}
        return self._client.get(path, headers=sent, buffered=True)

    def page(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, site: str = "same-origin", **options: Any) -> TestResponse:
        sent = {"Sec-Fetch-Site": site, **options.pop("headers", {})}
        return self._client.post(path, headers=sent, **options)

    def sign_in(self, name: str, password: str = PASSWORD, **fields: str) -> TestResponse:
        return self.post("/sign-in", data={"name": name, "password": password, **fields})


@pytest.fixture
def browser(app: Flask) -> Browser:
    return Browser(app)


@pytest.fixture
def a_browser(app: Flask) -> Callable[[Person], Browser]:
    """One in which that person is signed in."""

    def build(person: Person) -> Browser:
        person.ok(person.patch("/users/me", password=PASSWORD))
        made = Browser(app)
        assert made.sign_in(person.name).status_code == 303
        return made

    return build
