"""Bodies that a submission will name by their hash."""

from typing import Any

from flask import Blueprint, request

from pit_server.api.context import head
from pit_server.api.policy import Who, allow, caller
from pit_server.store import uploads

blueprint = Blueprint("uploads", __name__, url_prefix="/uploads")
MIB = 1024 * 1024
MAX_BODY = 1 << 50  # the setting, not the framework, bounds an upload


@blueprint.put("/<sha256>")
@allow(Who.USER, max_bytes=MAX_BODY)
def upload(sha256: str) -> tuple[dict[str, Any], int]:
    uploads.check_name(sha256)
    user_id = caller().user_id
    assert user_id is not None  # noqa: S101 - a user's route
    limit = head().settings.max_pack_mib * MIB
    is_new = uploads.receive(request.stream, head().data.upload(user_id, sha256), limit)  # type: ignore[arg-type]
    return {"sha256": sha256}, 201 if is_new else 200
