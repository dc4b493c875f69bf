"""The routes of the application."""

from flask import Flask, url_for

from pit_protocol import API_PREFIX


def test_a_url_is_built_though_its_builder_is_compiled_late(app: Flask) -> None:
    with app.test_request_context():
        assert url_for("jobs.show", number=7) == f"{API_PREFIX}/jobs/7"
        assert url_for("jobs.show", number=8, columns="result") == f"{API_PREFIX}/jobs/8?columns=result"
