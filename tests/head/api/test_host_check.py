"""A head answers only requests that name it: a request under another name is refused."""

import ipaddress
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from werkzeug.test import Client, TestResponse

from pit_protocol.problem import Problem
from pit_server import host_check
from pit_server.app import create_app
from pit_server.context import Head
from pit_server.settings import Settings

Ask = Callable[..., TestResponse]


@pytest.fixture
def database_url() -> str:
    """SQLite only: nothing here depends on the database."""
    return ""


@pytest.fixture
def ask(head: Head) -> Ask:
    def ask(
        host: str | None,
        path: str = "/api/v1/",
        method: str = "GET",
        headers: dict[str, str] | None = None,
        **settings: Any,
    ) -> TestResponse:
        app = create_app(replace(head, settings=replace(head.settings, **settings)))

        def serve(environ: dict[str, Any], start_response: Any) -> Any:
            environ.pop("HTTP_HOST", None)
            if host is not None:
                environ["HTTP_HOST"] = host
            return app(environ, start_response)

        return Client(serve).open(path, method=method, headers=headers, buffered=True)

    return ask


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a name, as the name service knows it too."""
    monkeypatch.setattr(socket, "gethostname", lambda: "Box7")
    monkeypatch.setattr(socket, "gethostbyaddr", lambda _: ("box7.lab.example.org", ["pit"], ["192.0.2.7"]))


def own_address() -> str:
    """One that is not loopback, if this machine has one; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


@pytest.mark.parametrize("path", ["/api/v1/", "/api/v1/users", "/dav/home/", "/dav", "/", "/nothing"])
@pytest.mark.parametrize("method", ["GET", "POST", "PROPFIND", "OPTIONS"])
@pytest.mark.threat("S60")
def test_another_host_is_refused_everywhere(ask: Ask, path: str, method: str) -> None:
    answer = ask("evil.example.com:7478", path, method)
    assert (answer.status_code, answer.mimetype) == (421, "application/problem+json")
    problem = json.loads(answer.text)
    assert (problem["code"], problem["status"]) == ("misdirected", 421)
    assert problem["message"] == "this head does not answer for the host 'evil.example.com:7478'"
    assert "`hosts` in head.toml" in problem["hint"]


def test_a_head_request_gets_no_body(ask: Ask) -> None:
    answer = ask("evil.example.com", method="HEAD")
    assert (answer.status_code, answer.data) == (421, b"")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost:7478",
        "localhost.",
        "localhost.:7478",
        "localhost:",
        "pit.localhost:1",
        "127.0.0.1",
        "127.0.0.1:7478",
        "127.8.9.10:65535",
        "[::1]",
        "[::1]:8000",
        "[0:0::1]:8000",
        "[::ffff:127.0.0.1]:1",
    ],
)
def test_loopback_is_answered(ask: Ask, host: str) -> None:
    assert ask(host).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        ":7478",
        "localhost.evil.example.com",
        "evil-localhost",
        "127.0.0.1.evil.example.com",
        "user@localhost",
        "localhost@evil.example.com",
        "localhost,evil.example.com",
        "localhost evil.example.com",
        "localhost/..",
        "localhost:x",
        "localhost:123456",
        "localhost..",
        "::1",
        "[::1",
        "[localhost]",
        "[]",
        "0.0.0.0",
        "[::]:7478",
        "127.1",
        "0x7f.1",
        "198.51.100.77",
        "[2001:db8::77]:7478",
        "[fe80::dead:beef]:7478",
        "224.0.0.1",
        "[ff02::1]",
        "lo\u00e7alhost",
        "localhost\n",
        "1" * 10_000,
    ],
)
def test_a_foreign_or_malformed_host_is_refused(ask: Ask, host: str | None) -> None:
    answer = ask(host)
    assert answer.status_code == 421
    assert len(answer.data) < 1000


def test_the_refused_host_is_escaped_in_the_answer(ask: Ask) -> None:
    message = json.loads(ask("a\x1b[31m\u00e9").text)["message"]
    assert message.isascii() and message.isprintable()


@pytest.mark.parametrize(
    "host", ["box7", "BOX7:7478", "box7.lab.example.org.", "pit", "Box7.Lab.Example.org:1"]
)
def test_the_machines_own_names_are_answered(ask: Ask, names: None, host: str) -> None:
    assert ask(host).status_code == 200


def test_another_machine_of_the_same_domain_is_refused(ask: Ask, names: None) -> None:
    assert ask("box8.lab.example.org").status_code == 421


def test_the_machines_own_addresses_are_answered_as_they_are_now(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(f"{own_address()}:7478", bind="0.0.0.0:7478").status_code == 200
    current = {"198.51.100.7"}
    monkeypatch.setattr(host_check, "_can_bind", lambda _, place: place[0] in current)
    assert (ask("198.51.100.7").status_code, ask("198.51.100.8:1").status_code) == (200, 421)
    current = {"198.51.100.8"}  # by DHCP
    assert (ask("198.51.100.7").status_code, ask("198.51.100.8:1").status_code) == (421, 200)


def test_a_link_local_address_is_tried_on_every_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (4, "eth0")])
    monkeypatch.setattr(host_check, "_can_bind", lambda _, place: place == ("fe80::7", 0, 0, 4))
    found = [host_check.parse(text) for text in ("[fe80::7%eth0]:7478", "[fe80::8]")]
    assert found == [ipaddress.ip_address("fe80::7"), ipaddress.ip_address("fe80::8")]
    assert [host_check._is_own_address(address) for address in found] == [True, False]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "chosen"),
    [
        ("pit.example.org", {"url": "https://Pit.example.org/"}),
        ("pit.example.org:443", {"url": "https://pit.example.org:7478"}),
        ("[2001:db8::7]:1", {"url": "https://[2001:DB8:0::7]:7478"}),
        ("head.lab:7478", {"bind": "head.lab:7478"}),
        ("a.example.org", {"hosts": "a.example.org"}),
        ("B.example.org.:80", {"hosts": " a.example.org , b.example.org:443,"}),
        ("198.51.100.7:80", {"hosts": "198.51.100.7"}),
        ("[2001:db8::7]:80", {"hosts": "x,2001:db8::7"}),
        ("[2001:db8::7]:80", {"hosts": "[2001:db8::7]"}),
    ],
)
def test_hosts_from_the_settings_are_answered(ask: Ask, host: str, chosen: dict[str, str]) -> None:
    assert ask(host).status_code == 421
    assert ask(host, **chosen).status_code == 200
    assert ask(f"x.{host}", **chosen).status_code == 421


def test_a_proxy_does_not_choose_the_host(head: Head) -> None:
    app = create_app(replace(head, settings=replace(head.settings, proxies=1)))
    headers = {"Host": "evil.example.com", "X-Forwarded-Host": "localhost", "X-Forwarded-For": "127.0.0.1"}
    assert app.test_client().get("/api/v1/", headers=headers).status_code == 421


@pytest.mark.parametrize(
    "value", ["*", "https://pit.example.org", "a b", "pit.example.org/", "*.example.org"]
)
def test_a_wrong_host_in_the_settings_is_named(settings: Settings, value: str) -> None:
    with pytest.raises(Problem, match="which is neither a name nor an address") as caught:
        host_check.list_set(replace(settings, hosts=f"good.example.org,{value}"))
    assert repr(value) in caught.value.message


def test_a_hanging_name_service_delays_requests_only_briefly(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(host_check, "LOOKUP_S", 0.05)
    monkeypatch.setattr(host_check, "_list_names", lambda: ["late.example.org"] if answers.wait(30) else [])
    own = host_check._OwnNames()
    assert "late.example.org" not in own
    assert ask("localhost").status_code == 200
    answers.set()
    monkeypatch.setattr(host_check, "LOOKUP_S", 30.0)
    assert "late.example.org" in own


def test_name_lookups_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(host_check, "_list_names", lambda: asked.append(1) or [f"n{len(asked)}.example.org"])
    own = host_check._OwnNames()
    assert not any(f"evil{number}.example.com" in own for number in range(20))
    assert (len(asked), "n1.example.org" in own) == (1, True)
    monkeypatch.setattr(host_check, "REFRESH_S", -1.0)
    assert "n2.example.org" in own  # the machine was renamed


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/login", "/dav/home/x"])
@pytest.mark.threat("S60")
def test_a_page_of_another_site_changes_nothing(ask: Ask, headers: dict[str, str], path: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        refused = ask("127.0.0.1:8000", path, method, headers)
        assert (refused.status_code, json.loads(refused.data)["code"]) == (403, "cross_site")


@pytest.mark.parametrize(
    ("headers", "chosen"),
    [
        ({}, {}),
        ({"Origin": "http://127.0.0.1:8000"}, {}),
        ({"Sec-Fetch-Site": "same-origin"}, {}),
        ({"Sec-Fetch-Site": "none"}, {}),
        ({"Origin": "https://pit.example.org"}, {"url": "https://pit.example.org"}),
    ],
)
def test_a_client_and_the_heads_own_pages_may(
    ask: Ask, headers: dict[str, str], chosen: dict[str, str]
) -> None:
    answer = ask("127.0.0.1:8000", "/api/v1/login", "POST", headers, **chosen)
    assert answer.status_code == 415  # it is asked for JSON next
