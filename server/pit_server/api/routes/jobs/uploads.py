"""Packs that a submission will name by their hash."""

from flask import Blueprint, request

from pit_protocol.answers.files import Upload
from pit_protocol.problem import Problem
from pit_server.api.http.body import Body
from pit_server.api.http.context import head, number_argument
from pit_server.api.http.description import OFFSET, Param, describe
from pit_server.api.http.guard import Role, allow, caller
from pit_server.services.files import domains
from pit_server.store import pack_uploads
from pit_server.traffic import Traffic

blueprint = Blueprint("uploads", __name__, url_prefix="/uploads")
MAX_BODY = 1 << 50  # the setting, not the framework, bounds an upload


@blueprint.get("/<sha256>")
@allow(Role.USER)
def show(sha256: str) -> Upload:
    """How much of a pack has arrived."""
    pack_uploads.check_name(sha256)
    return _record(sha256, pack_uploads.progress(head().data.upload(caller().user_id or 0, sha256)))


@blueprint.put("/<sha256>")
@allow(Role.USER, max_bytes=MAX_BODY, traffic=Traffic.TRANSFER)
@describe(
    OFFSET,
    Param("size", "of the whole pack", "integer", required=True),
    takes="application/octet-stream",
    status=(200, 201),
)
def upload(sha256: str) -> tuple[Upload, int]:
    """Send a piece of a pack."""
    pack_uploads.check_name(sha256)
    if "size" not in request.args:
        raise Problem(
            "missing_field", "the upload's whole size is missing", "add ?offset=0&size=…", status=422
        )
    target = head().data.upload(caller().user_id or 0, sha256)
    known = pack_uploads.progress(target)
    offset, total = int(number_argument("offset", 0)), int(number_argument("size", 0))
    pack_uploads.check_size(total, head().settings.max_upload_mib)
    with head().database.read() as session:
        place = domains.find(session, caller(), head().data, domains.HOME)
    with head().quotas.reserve(place, max(total - known.size, 0), again=known.size - offset) as reservation:
        now = pack_uploads.receive(Body(reservation.take), target, offset=offset, total=total)
    return _record(sha256, now), 201 if now.complete and not known.complete else 200


def _record(sha256: str, progress: pack_uploads.Progress) -> Upload:
    return Upload(sha256, progress.size, progress.complete)
