"""PROPFIND: the same answer as WsgiDAV, but streamed."""

import os
from typing import Any
from xml.etree import ElementTree

import pytest
from werkzeug.test import TestResponse

from pit_server.context import Head
from pit_server.dav.provider import DomainTree
from tests.head.dav.test_dav import LOCK, dav
from tests.support.clusters.head import Person

MANY = 3_000
ALL = b"<propfind xmlns='DAV:'><allprop/></propfind>"
NAMED = b"""<?xml version="1.0"?><D:propfind xmlns:D="DAV:" xmlns:o="http://own.example.org/?a=1&amp;b=2"><D:prop>
<D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:creationdate/><D:getetag/><D:displayname/>
<D:getcontenttype/><D:supportedlock/><D:lockdiscovery/><D:quota-used-bytes/><D:unknown/>
<o:checksums/><none xmlns=""/></D:prop></D:propfind>"""
NAMES = b"<propfind xmlns='DAV:'><propname/></propfind>"
BOMB = b"""<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>
<propfind xmlns="DAV:"><prop><displayname>&b;</displayname></prop></propfind>"""
OUTSIDE = b"""<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<propfind xmlns="DAV:"><prop><displayname>&a;</displayname></prop></propfind>"""


@pytest.fixture
def database_url() -> str:
    """SQLite only: nothing here depends on the database."""
    return ""


@pytest.fixture
def odd_home(anna: Person, head: Head) -> None:
    home = head.data.home("anna")
    (home / "a directory").mkdir(parents=True)
    for name in ("with blank.txt", "quo'te\"s", "new\nline", "a&b<c>", "emoji \U0001f40d.png", "#?%41"):
        (home / name).write_text(name)
    (home / os.fsdecode(b"latin-\xe9")).write_text("latin")
    (home / "link").symlink_to("a&b<c>")
    (home / "out").symlink_to("/etc/passwd")
    for path in ("home/with blank.txt", "home/a directory"):
        assert dav(anna, "LOCK", path, data=LOCK).status_code == 200


def asked(person: Person, path: str, body: bytes = b"", depth: str = "1", **options: Any) -> TestResponse:
    return dav(person, "PROPFIND", path, data=body, headers={"Depth": depth}, **options)


def content(element: ElementTree.Element) -> Any:
    """The content of an element, except the remaining time of a lock."""
    text = "" if element.tag == "{DAV:}timeout" else (element.text or "").strip()
    return element.tag, text, [content(each) for each in element]


@pytest.mark.usefixtures("odd_home")
@pytest.mark.parametrize("path", ["", "groups/", "shared/", "home/", "home/a%20directory", "home/link"])
@pytest.mark.parametrize("body", [b"", ALL, NAMED])
@pytest.mark.parametrize("depth", ["0", "1"])
def test_the_answer_equals_that_of_wsgidav(
    anna: Person, path: str, body: bytes, depth: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = asked(anna, path, body, depth)
    monkeypatch.delattr(DomainTree, "custom_request_handler")
    theirs = asked(anna, path, body, depth)
    assert (ours.status_code, theirs.status_code) == (207, 207)
    assert content(ElementTree.fromstring(ours.data)) == content(ElementTree.fromstring(theirs.data))
    headers = dict(ours.headers, Date="", **{"Content-Length": ""})
    assert headers == dict(theirs.headers, Date="", **{"Content-Length": ""})
    assert ours.headers["Content-Length"] == str(len(ours.data))


def test_names_of_properties_come_without_values(anna: Person) -> None:
    dav(anna, "PUT", "home/file", data=b"x")
    [names] = ElementTree.fromstring(asked(anna, "home/file", NAMES, "0").data).iter("{DAV:}prop")
    assert {"{DAV:}getetag", "{DAV:}getcontentlength", "{DAV:}resourcetype"} <= {each.tag for each in names}
    assert [each.text for each in names if each.text] == []


@pytest.mark.parametrize(
    "body",
    [
        b"<propfind xmlns='DAV:'>",
        b"<propfind/>",
        b"<propfind xmlns='DAV:'/>",
        b"<propfind xmlns='DAV:'><allprop/><propname/></propfind>",
        BOMB,
        OUTSIDE,
    ],
)
def test_invalid_bodies_are_refused(anna: Person, body: bytes) -> None:
    assert asked(anna, "home/", body).status_code == 400


def test_a_large_directory_is_streamed(anna: Person, head: Head) -> None:
    large = head.data.home("anna") / "large"
    large.mkdir(parents=True)
    for number in range(MANY):
        (large / f"{number:05}").touch()
    answer = asked(anna, "home/large/", buffered=False)
    assert answer.status_code == 207 and "Content-Length" not in answer.headers
    blocks = iter(answer.response)
    first = next(blocks)
    assert b"/00000<" in first
    # Not read yet: what is removed by then is not listed.
    (large / f"{MANY - 1:05}").unlink()
    whole = ElementTree.fromstring(b"".join([first, *blocks]))  # type: ignore[list-item]
    hrefs = [each.text for each in whole.iter("{DAV:}href")]
    expected = [f"/dav/home/large/{number:05}" for number in range(MANY - 1)]
    assert hrefs == ["/dav/home/large/", *expected]
