"""Files of the domains: written in parts, made, removed to the trash, and brought back."""

import os
import re
import time
from functools import partial

from flask import Blueprint, request

from pit_protocol.answers.files import (
    DiskUsage,
    FileArrived,
    PartArrived,
    PathWritten,
    TarArrived,
    TrashEmptied,
    TrashEntry,
    TrashList,
    Usage,
)
from pit_protocol.paths import name_fields, unquote_path
from pit_protocol.problem import Problem
from pit_protocol.transport.tar_reader import LATEST
from pit_server.api.http.audited import audited
from pit_server.api.http.body import Body
from pit_server.api.http.context import head, number_argument
from pit_server.api.http.description import OFFSET, Param, describe, flag
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.routes.files import asked, know_where
from pit_server.services.files import disk_use, trash
from pit_server.services.files.domains import Place
from pit_server.store.files import tar_extract, upload_parts
from pit_server.traffic import Traffic

blueprint = Blueprint("file_changes", __name__)
blueprint.record(know_where)
MAX_BODY = 1 << 50  # the disk, not the framework, bounds an upload
MAX_KEY = 64


@blueprint.put("/files/<where:where>")
@allow(Role.USER, max_bytes=MAX_BODY, traffic=Traffic.TRANSFER)
@describe(
    Param("part", "the key of a part: 8 to 64 letters and digits"),
    OFFSET,
    Param("size", "of the whole file", "integer"),
    Param("sha256", "of the whole file"),
    Param("mode", "octal, such as 644"),
    Param("mtime", "of the file", "number"),
    flag("new", "replace nothing"),
    flag("have", "only ask how much has arrived"),
    flag("directory", "make a directory"),
    Param("link", "make a link to this"),
    flag("tar", "the body is a sealed tar"),
    takes="application/octet-stream",
    status=(200, 201, 202),
)
def write(where: str) -> tuple[PathWritten | PartArrived | FileArrived | TarArrived, int]:  # noqa: ARG001 - taken as bytes
    """Write a part of a file, a directory, a link, or many files."""
    place, path = asked()
    place.require_write()
    if "directory" in request.args:
        head().quotas.require(place, int(number_argument("size", 0)))
        head().quotas.add_file(place)
        with place.open() as domain:
            domain.make_directory(path, parents=True)
    elif "link" in request.args:
        head().quotas.require_disk_space()
        head().quotas.add_file(place)
        with place.open() as domain:
            domain.make_link(path, _link_target())
    elif "tar" in request.args:
        return _take_in(place, path)
    else:
        return _receive(place, path)
    return PathWritten(domain=place.name, **name_fields(path)), 201


@blueprint.delete("/files/<where:where>")
@allow(Role.USER)
def remove(where: str) -> TrashEntry:  # noqa: ARG001
    """Move a file or directory to the trash."""
    place, path = asked()
    place.require_write()
    shown = path.encode(errors="backslashreplace").decode()
    write = partial(audited, "remove files", place.name, shown)
    database, data = head().database, head().data
    most = head().settings.trash_entries
    row = trash.discard(write, database, data, place, path, caller().name, now=time.time(), most=most)
    head().quotas.forget(place.name)
    return trash.record(row, head().settings.trash_days)


@blueprint.get("/trash")
@allow(Role.USER)
@describe(Param("kind", "of this kind"), Param("domain", "of this domain"))
def show_trash() -> TrashList:
    """What the caller could restore, the newest first."""
    wanted = {name: request.args.get(name, "") for name in ("kind", "domain")}
    with head().database.read() as session:
        found = trash.records(session, caller(), head().data, head().settings.trash_days, **wanted)
    return TrashList(found)


@blueprint.post("/trash/<int:number>/restore")
@allow(Role.USER)
def restore(number: int) -> TrashEntry:
    """Restore something from the trash."""
    with audited("restore", f"trash:{number}") as session:
        row = trash.restore(session, caller(), head().data, number)
    head().quotas.forget(row.domain)
    return trash.record(row, head().settings.trash_days)


@blueprint.delete("/trash")
@allow(Role.USER)
def empty_trash() -> TrashEmptied:
    """Delete all of the caller's files and jobs in the trash."""
    with audited("purge", "trash") as session:
        count = trash.purge_own(session, caller())
    head().quotas.forget(f"user:{caller().name}")
    return TrashEmptied(count)


@blueprint.delete("/trash/<int:number>")
@allow(Role.USER)
def purge(number: int) -> TrashEntry:
    """Delete something in the trash for good."""
    with audited("purge", f"trash:{number}") as session:
        row = trash.purge(session, caller(), head().data, number)
    head().quotas.forget(row.domain)
    return trash.record(row, head().settings.trash_days)


@blueprint.get("/usage")
@allow(Role.USER)
def show_usage() -> Usage:
    """How much space each domain takes."""
    free, total = head().quotas.free()
    with head().database.read() as session:
        found = disk_use.records(session, caller(), head().data, head().quotas)
    return Usage(found, DiskUsage(free, total))


def _receive(place: Place, path: str) -> tuple[PartArrived | FileArrived, int]:
    """A part of a file; with `size` and `sha256` it is the last, and the file takes its place."""
    key = request.args.get("part", "")
    if not 8 <= len(key) <= MAX_KEY or not key.isalnum():
        raise Problem("bad_part", "a part's key has 8 to 64 letters and digits", "?part=…", status=422)
    upload = upload_parts.Upload(path, caller().name, key)
    size = int(number_argument("size", -1)) if "size" in request.args else None
    offset = int(number_argument("offset", 0))
    with place.open() as domain:
        if "have" in request.args:
            return PartArrived(upload_parts.received(domain, upload)), 200
        whole = max(offset + (request.content_length or 0), size or 0)
        known = upload_parts.received(domain, upload)
        if not known:
            head().quotas.add_file(place)
        with head().quotas.reserve(place, whole - max(known, offset), again=known - offset) as reservation:
            arrived = upload_parts.receive(domain, upload, offset, Body(reservation.take), size)
        if size is None or arrived < size or "sha256" not in request.args:
            return PartArrived(arrived), 202
        upload_parts.complete(domain, upload, _claim(size))
    return FileArrived(domain=place.name, **name_fields(path), offset=size), 201


def _claim(size: int) -> upload_parts.Claim:
    mtime = min(number_argument("mtime", 0), LATEST) if "mtime" in request.args else None
    mode = request.args.get("mode", "644")
    if not re.fullmatch("[0-7]{1,4}", mode):
        raise Problem("bad_mode", f"mode must be octal, not {mode[:40]!r}", "mode=644", status=422)
    is_new = request.args.get("new") == "yes"
    return upload_parts.Claim(size, request.args["sha256"], int(mode, 8), mtime, is_new)


def _take_in(place: Place, path: str) -> tuple[TarArrived, int]:
    """Many small files at once, as a sealed tar."""
    with place.open() as domain, head().quotas.reserve(place, request.content_length or 0) as reservation:
        count, size = tar_extract.extract(domain, path, Body(reservation.take), reservation.add_file)
    return TarArrived(count, size), 201


def _link_target() -> str:
    target = unquote_path(request.args["link"])
    if not target or len(os.fsencode(target)) >= 4096:
        raise Problem("bad_link", "a link leads to a path", status=422)
    return target
