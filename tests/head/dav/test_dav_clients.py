"""What Explorer and Finder ask for when a person copies a file into a mounted directory, in their order.

Taken from how both speak WebDAV; neither runs here.
"""

from typing import Any
from xml.etree import ElementTree

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from pit_server.context import Head
from tests.support.clusters.head import Person

EXPLORER = {"User-Agent": "Microsoft-WebDAV-MiniRedir/10.0.19045", "Translate": "f"}
FINDER = {"User-Agent": "WebDAVFS/3.0.0 (03008000) Darwin/22.6.0 (x86_64)", "Accept": "*/*"}
LOCK = b"""<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:">
<D:lockscope><D:exclusive/></D:lockscope>
<D:locktype><D:write/></D:locktype><D:owner><D:href>ANNA-PC\\anna</D:href></D:owner></D:lockinfo>"""
WIN32 = b"""<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:"
xmlns:Z="urn:schemas-microsoft-com:">
<D:set><D:prop><Z:Win32CreationTime>Tue, 06 Feb 2001 00:00:00 GMT</Z:Win32CreationTime>
<Z:Win32LastAccessTime>Tue, 06 Feb 2001 00:00:00 GMT</Z:Win32LastAccessTime>
<Z:Win32LastModifiedTime>Sat, 03 Feb 2001 00:00:00 GMT</Z:Win32LastModifiedTime>
<Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"""
FINDER_ASKS = b"""<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>
<D:getlastmodified/><D:getcontentlength/><D:creationdate/><D:resourcetype/></D:prop></D:propfind>"""
FINDER_QUOTA = b"""<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop>
<D:quota-available-bytes/><D:quota-used-bytes/><D:quota/><D:quotaused/></D:prop></D:propfind>"""
XML = "text/xml; charset=utf-8"


@pytest.fixture
def database_url() -> str:
    """SQLite only: nothing here depends on the database."""
    return ""


class Program:
    """A WebDAV client of a user who entered a token as the password."""

    def __init__(self, person: Person, headers: dict[str, str]) -> None:
        self._person, self._headers = person, headers

    def __call__(self, method: str, path: str, data: bytes = b"", **headers: str) -> TestResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        options: dict[str, Any] = {"data": data} if data else {}
        if data.startswith(b"<?xml"):
            options["content_type"] = XML
        with self._person.app.test_client() as client:
            return client.open(
                f"/dav/{path}",
                method=method,
                headers={**self._headers, **named},
                auth=("anna", self._person.token),
                **options,
            )

    def lock(self, path: str) -> tuple[int, str]:
        answer = self("LOCK", path, LOCK, Timeout="Second-3600", Depth="0")
        return answer.status_code, answer.headers["Lock-Token"]


def statuses(answer: TestResponse) -> set[str]:
    """The single properties in a multistatus."""
    assert answer.status_code == 207, answer.text
    return {(each.text or "") for each in ElementTree.fromstring(answer.data).iter("{DAV:}status")}


def hrefs(answer: TestResponse) -> list[str]:
    assert answer.status_code == 207, answer.text
    return [each.text or "" for each in ElementTree.fromstring(answer.data).iter("{DAV:}href")]


def test_options_announces_webdav_with_locks(anna: Person, app: Flask) -> None:
    with app.test_client() as client:
        unknown = client.options("/dav/", headers=EXPLORER)
    assert unknown.status_code == 401 and unknown.headers["WWW-Authenticate"].startswith("Basic ")
    for headers in (EXPLORER, FINDER):
        for path in ("", "home/"):
            answer = Program(anna, headers)("OPTIONS", path)
            assert (answer.status_code, answer.headers["DAV"].replace(" ", "")) == (200, "1,2")
            assert answer.headers["MS-Author-Via"] == "DAV"
            assert {"PROPFIND", "LOCK", "PROPPATCH"} <= set(answer.headers["Allow"].split(", "))


def test_explorer_copies_renames_and_deletes_a_file(anna: Person, head: Head) -> None:
    explorer, home = Program(anna, EXPLORER), head.data.home("anna")
    assert hrefs(explorer("PROPFIND", "", Depth="1"))[0] == "/dav/"
    assert hrefs(explorer("PROPFIND", "home", Depth="0")) == ["/dav/home/"]
    assert explorer("PROPFIND", "home/New%20text.txt", Depth="0").status_code == 404
    assert explorer("PROPFIND", "home/desktop.ini", Depth="0").status_code == 404
    assert explorer("PUT", "home/New%20text.txt", Content_Length="0").status_code == 201
    code, token = explorer.lock("home/New%20text.txt")
    assert code == 200
    held = {"If": f"({token})"}
    assert statuses(explorer("PROPPATCH", "home/New%20text.txt", WIN32, **held)) == {"HTTP/1.1 200 OK"}
    assert explorer("HEAD", "home/New%20text.txt").headers["Content-Length"] == "0"
    assert explorer("PUT", "home/New%20text.txt", b"hello", **held).status_code == 204
    assert statuses(explorer("PROPPATCH", "home/New%20text.txt", WIN32, **held)) == {"HTTP/1.1 200 OK"}
    assert explorer("UNLOCK", "home/New%20text.txt", Lock_Token=token).status_code == 204
    assert (home / "New text.txt").read_bytes() == b"hello"
    assert (home / "New text.txt").stat().st_mtime == 981158400
    assert explorer("MKCOL", "home/New%20folder").status_code == 201
    to = "http://localhost/dav/home/New%20folder/text.txt"
    assert explorer("MOVE", "home/New%20text.txt", Destination=to, Overwrite="F").status_code == 201
    assert explorer("GET", "home/New%20folder/text.txt").data == b"hello"
    assert explorer("DELETE", "home/New%20folder").status_code == 204
    assert list(home.iterdir()) == []


def test_finder_copies_a_file_and_its_metadata_file(anna: Person, head: Head) -> None:
    finder, home = Program(anna, FINDER), head.data.home("anna")
    found = finder("PROPFIND", "home/", FINDER_ASKS, Depth="1")
    assert hrefs(found) == ["/dav/home/"] and "HTTP/1.1 200 OK" in statuses(found)
    # A head without these properties is assumed to have free space.
    assert finder("PROPFIND", "home/", FINDER_QUOTA, Depth="0").status_code == 207
    for name in (".DS_Store", "._photo.jpg", ".hidden", ".metadata_never_index"):
        assert finder("PROPFIND", f"home/{name}", FINDER_ASKS, Depth="0").status_code == 404
    for name, content in (("photo.jpg", b"\xff\xd8" * 1000), ("._photo.jpg", b"\0\5\x16\7" + b"\0" * 78)):
        code, token = finder.lock(f"home/{name}")
        assert code == 201  # which makes the file
        assert hrefs(finder("PROPFIND", f"home/{name}", FINDER_ASKS, Depth="0")) == [f"/dav/home/{name}"]
        put = finder("PUT", f"home/{name}", content, If=f"({token})", X_Expected_Entity_Length="1000")
        assert put.status_code == 204
        assert finder("UNLOCK", f"home/{name}", Lock_Token=token).status_code == 204
        assert (home / name).read_bytes() == content
    part = finder("GET", "home/photo.jpg", Range="bytes=1-2")
    assert (part.status_code, part.data) == (206, b"\xd8\xff")
    assert finder("PUT", "home/.DS_Store", b"\0\0\0\1Bud1").status_code == 201
    to = "http://localhost/dav/home/image.jpg"
    assert finder("MOVE", "home/photo.jpg", Destination=to, Overwrite="F").status_code == 201
    names = {href.rpartition("/")[2] for href in hrefs(finder("PROPFIND", "home/", FINDER_ASKS, Depth="1"))}
    assert names == {"", ".DS_Store", "._photo.jpg", "image.jpg"}
