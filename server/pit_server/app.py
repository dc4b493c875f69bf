"""The application factory: a head from settings, a Flask application from a head."""

import logging
import secrets

from flask import Flask, Response, current_app, jsonify
from sqlalchemy.exc import DBAPIError
from werkzeug.exceptions import HTTPException
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from pit_protocol import API_PREFIX
from pit_protocol.problem import Problem
from pit_server import tls
from pit_server.api import BLUEPRINTS
from pit_server.api.policy import admit
from pit_server.bells import CLEANER, KEEPER, PREPARER, SCHEDULER, WATCHER, Bells
from pit_server.dav.gate import MOUNT, Gate
from pit_server.db import migrate
from pit_server.db.database import Database
from pit_server.duties import duty
from pit_server.duties.cleaning import Cleaning
from pit_server.duties.housekeeping import Housekeeping
from pit_server.duties.preparing import Preparing
from pit_server.duties.scheduling import Scheduling
from pit_server.duties.watching import Watching
from pit_server.head import Head
from pit_server.services import cluster, losses
from pit_server.services import secrets as secrets_of_users
from pit_server.services.registration import APPROVE, CLOSED, OPEN, Door
from pit_server.services.room import Room
from pit_server.services.throttle import TooMany
from pit_server.settings import Settings
from pit_server.store.paths import DataRoot

log = logging.getLogger(__name__)
RETRY_AFTER_S = 2


def create_head(settings: Settings) -> Head:
    """Open the books and the data root; both are made where they are missing."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    secrets_of_users.make_key(settings.home)
    bells = Bells()
    database = Database(settings.books, bells)
    migrate.upgrade(database)
    data = DataRoot(settings.root)
    data.create()
    with database.write() as session:
        cluster_id = cluster.find_id(session)
    watching = Watching(database, settings.offline_after_s)
    door, room = _door(settings, database), Room(settings)
    return Head(settings, bells, database, data, Scheduling(database), watching, door, cluster_id, room)


def _door(settings: Settings, database: Database) -> Door:
    mode = settings.registration
    if mode == "auto":
        # What is said to a proxy on loopback may come from anywhere.
        is_alone = tls.is_on_loopback(settings) and not settings.proxies and not settings.url
        mode = OPEN if is_alone else APPROVE
    if mode not in (OPEN, APPROVE, CLOSED):
        raise Problem("bad_settings", f"registration must be auto, open, approve or closed, not {mode!r}")
    return Door(
        database,
        mode,
        cost=settings.bcrypt_cost,
        per_minute=settings.logins_per_minute,
        token_days=settings.token_days,
    )


def begin_leases(head: Head) -> None:
    """From now on this head gives processes their leases, and knows by them when they are lost."""
    with head.database.write() as session:
        head.watching.term = losses.begin_term(session, head.settings.lost_after_s, head.settings.grace_s)


def start_duties(head: Head) -> None:
    """Let the head do what it does by itself, in threads of this process."""
    begin_leases(head)
    duty.start("scheduling", head.bells, SCHEDULER, head.scheduling)
    duty.start("preparing", head.bells, PREPARER, Preparing(head.database, head.data, head.settings))
    duty.start("cleaning", head.bells, CLEANER, Cleaning(head.database, head.data, head.settings))
    duty.start("watching", head.bells, WATCHER, head.watching)
    keeping = Housekeeping(head.database, head.data, head.room, head.settings)
    duty.start("housekeeping", head.bells, KEEPER, keeping)


def create_app(head: Head) -> Flask:
    app = Flask("pit_server", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.extensions["pit"] = head
    app.before_request(admit)
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {MOUNT: Gate(head)})  # type: ignore[method-assign]
    if head.settings.proxies:
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=head.settings.proxies)  # type: ignore[method-assign]
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint, url_prefix=API_PREFIX + (blueprint.url_prefix or ""))
    app.register_error_handler(Problem, _problem)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(DBAPIError, _database_error)
    app.register_error_handler(Exception, _bug)
    return app


def _problem(problem: Problem) -> Response:
    response = jsonify(problem.to_json())
    response.status_code = problem.status
    response.mimetype = "application/problem+json"
    if isinstance(problem, TooMany):
        response.headers["Retry-After"] = str(problem.retry_after_s)
    return response


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    text = (error.description or error.name).rstrip(".")
    return _problem(Problem(error.name.lower().replace(" ", "_"), text[0].lower() + text[1:], status=status))


def _database_error(error: DBAPIError) -> Response:
    head: Head = current_app.extensions["pit"]
    if "full" in str(error.orig):
        head.room.note_full(True)
    log.warning("the database is busy or away: %s", error.orig)
    response = _problem(
        Problem("database_busy", "the head's database does not answer", "try again", status=503)
    )
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def _bug(error: Exception) -> Response:
    reference = secrets.token_hex(4)
    log.error("internal error %s", reference, exc_info=error)
    hint = "the head's log has more under this reference"
    return _problem(Problem("internal_error", f"internal error, reference {reference}", hint, status=500))
