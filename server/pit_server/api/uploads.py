"""Packs that a submission will name by their hash."""

from typing import Any

from flask import Blueprint, request

from pit_protocol.problem import Problem
from pit_server.api.context import head, number_argument
from pit_server.api.policy import Who, allow, caller
from pit_server.store import uploads

blueprint = Blueprint("uploads", __name__, url_prefix="/uploads")
MAX_BODY = 1 << 50  # the setting, not the framework, bounds an upload


@blueprint.get("/<sha256>")
@allow(Who.USER)
def show(sha256: str) -> dict[str, Any]:
    uploads.check_name(sha256)
    return _record(sha256, uploads.progress(head().data.upload(caller().user_id or 0, sha256)))


@blueprint.put("/<sha256>")
@allow(Who.USER, max_bytes=MAX_BODY)
def upload(sha256: str) -> tuple[dict[str, Any], int]:
    uploads.check_name(sha256)
    if "size" not in request.args:
        raise Problem(
            "missing_field", "the upload's whole size is missing", "add ?offset=0&size=…", status=422
        )
    target = head().data.upload(caller().user_id or 0, sha256)
    known = uploads.progress(target)
    now = uploads.receive(
        request.stream,  # type: ignore[arg-type]
        target,
        offset=int(number_argument("offset", 0)),
        total=int(number_argument("size", 0)),
        max_bytes=head().settings.max_upload_mib * uploads.MIB,
    )
    return _record(sha256, now), 201 if now.complete and not known.complete else 200


def _record(sha256: str, progress: uploads.Progress) -> dict[str, Any]:
    return {"sha256": sha256, "size": progress.size, "complete": progress.complete}
