"""The head itself, and the caller's own record."""

from flask import Blueprint

from pit_protocol import __version__
from pit_protocol.answers.users import About, User
from pit_server.api.http.context import head
from pit_server.api.http.guard import Role, allow, caller
from pit_server.api.routes.users import with_limits
from pit_server.services.users import accounts
from pit_server.services.users.registration import needs_setup

blueprint = Blueprint("me", __name__)


@blueprint.get("/")
@allow(Role.ANYONE)
def about() -> About:
    """The head itself: version, cluster, who may register."""
    with head().database.read() as session:
        is_empty = needs_setup(session)
    return About(
        name="pit",
        version=__version__,
        cluster=head().cluster,
        registration=head().auth.mode,
        needs_setup=is_empty,
    )


@blueprint.get("/me")
@allow(Role.USER)
def me() -> User:
    """The caller's own record."""
    with head().database.read() as session:
        record = accounts.records(session, caller(), caller().name)[0]
        return with_limits(session, record, caller().user_id or 0)
