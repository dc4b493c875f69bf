"""Files of the domains: written in parts, made, removed to the trash, and brought back."""

import os
import re
import time
from typing import Any

from flask import Blueprint, request

from pit_protocol.paths import name_fields, unquote_path
from pit_protocol.problem import Problem
from pit_protocol.tar_reader import LATEST
from pit_server.api.context import head, number_argument
from pit_server.api.deeds import deed
from pit_server.api.files import asked, know_where
from pit_server.api.policy import Who, allow, caller
from pit_server.api.receiving import Body
from pit_server.services import disk_use, trash
from pit_server.services.domains import Place
from pit_server.store import intake, parts

blueprint = Blueprint("file_changes", __name__)
blueprint.record(know_where)
MAX_BODY = 1 << 50  # the disk, not the framework, bounds an upload
MAX_KEY = 64


@blueprint.put("/files/<where:where>")
@allow(Who.USER, max_bytes=MAX_BODY)
def write(where: str) -> tuple[dict[str, Any], int]:  # noqa: ARG001 - taken as bytes
    place, path = asked()
    place.demand_write()
    if "directory" in request.args:
        head().room.demand(place, int(number_argument("size", 0)))
        with place.open() as domain:
            domain.make_directory(path, parents=True)
    elif "link" in request.args:
        head().room.demand_disk()
        with place.open() as domain:
            domain.make_link(path, _link_target())
    elif "tar" in request.args:
        return _take_in(place, path)
    else:
        return _receive(place, path)
    return {"domain": place.name, **name_fields(path)}, 201


@blueprint.delete("/files/<where:where>")
@allow(Who.USER)
def remove(where: str) -> dict[str, Any]:  # noqa: ARG001
    place, path = asked()
    place.demand_write()
    with deed("remove files", place.name, path.encode(errors="backslashreplace").decode()) as session:
        row = trash.discard(session, head().data, place, path, caller().name, now=time.time())
    head().room.forget(place.name)
    return trash.record(row)


@blueprint.get("/trash")
@allow(Who.USER)
def show_trash() -> dict[str, Any]:
    with head().database.read() as session:
        return {"trash": trash.records(session, caller(), head().data)}


@blueprint.post("/trash/<int:number>/restore")
@allow(Who.USER)
def restore(number: int) -> dict[str, Any]:
    with deed("restore", f"trash:{number}") as session:
        row = trash.restore(session, caller(), head().data, number)
    head().room.forget(row.domain)
    return trash.record(row)


@blueprint.get("/usage")
@allow(Who.USER)
def show_usage() -> dict[str, Any]:
    free, total = head().room.free()
    with head().database.read() as session:
        found = disk_use.records(session, caller(), head().data, head().room)
    return {"domains": found, "disk": {"free": free, "total": total}}


def _receive(place: Place, path: str) -> tuple[dict[str, Any], int]:
    """A part of a file; with `size` and `sha256` it is the last, and the file takes its place."""
    key = request.args.get("part", "")
    if not 8 <= len(key) <= MAX_KEY or not key.isalnum():
        raise Problem("bad_part", "a part's key has 8 to 64 letters and digits", "?part=…", status=422)
    upload = parts.Upload(path, caller().name, key)
    size = int(number_argument("size", -1)) if "size" in request.args else None
    offset = int(number_argument("offset", 0))
    with place.open() as domain:
        if "have" in request.args:
            return {"offset": parts.have(domain, upload)}, 200
        whole = max(offset + (request.content_length or 0), size or 0)
        known = parts.have(domain, upload)
        with head().room.hold(place, whole - max(known, offset), again=known - offset) as hold:
            arrived = parts.receive(domain, upload, offset, Body(hold.take), size)
        if size is None or arrived < size or "sha256" not in request.args:
            return {"offset": arrived}, 202
        parts.complete(domain, upload, _claim(size))
    return {"offset": size, "domain": place.name, **name_fields(path)}, 201


def _claim(size: int) -> parts.Claim:
    mtime = min(number_argument("mtime", 0), LATEST) if "mtime" in request.args else None
    mode = request.args.get("mode", "644")
    if not re.fullmatch("[0-7]{1,4}", mode):
        raise Problem("bad_mode", f"mode must be octal, not {mode[:40]!r}", "mode=644", status=422)
    is_new = request.args.get("new") == "yes"
    return parts.Claim(size, request.args["sha256"], int(mode, 8), mtime, is_new)


def _take_in(place: Place, path: str) -> tuple[dict[str, Any], int]:
    """Many small files at once, as a sealed tar."""
    with place.open() as domain, head().room.hold(place, request.content_length or 0) as hold:
        count, size = intake.take_in(domain, path, Body(hold.take))
    return {"count": count, "bytes": size}, 201


def _link_target() -> str:
    target = unquote_path(request.args["link"])
    if not target or len(os.fsencode(target)) >= 4096:
        raise Problem("bad_link", "a link leads to a path", status=422)
    return target
