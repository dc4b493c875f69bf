"""The application factory: a head from settings, a Flask application from a head."""

import logging

from flask import Flask, Response, current_app, jsonify, request
from sqlalchemy.exc import DBAPIError
from werkzeug.exceptions import HTTPException
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.proxy_fix import ProxyFix

from pit_protocol import API_PREFIX
from pit_protocol.problem import Problem
from pit_protocol.system.pieces import NO_SPACE
from pit_protocol.system.retention_clock import RetentionClock
from pit_server import log_records, web
from pit_server.api import BLUEPRINTS, ROOT_BLUEPRINTS
from pit_server.api.http.flask_app import Application
from pit_server.api.http.guard import check_access, end_request
from pit_server.api.http.protocol_check import check_request, mark_answer
from pit_server.api.http.revalidation import revalidate
from pit_server.api.http.traffic import make_classifier
from pit_server.background import loop
from pit_server.background.clock_watch import ClockWatch
from pit_server.background.code_gc import CodeGc
from pit_server.background.data_gc import DataGc
from pit_server.background.disk_watch import DiskWatch
from pit_server.background.estimating import Estimating
from pit_server.background.job_space import JobSpace
from pit_server.background.node_watch import NodeWatch
from pit_server.background.notifying import Notifying
from pit_server.background.preparing import Preparing
from pit_server.background.purge import Purge
from pit_server.background.scheduling import Scheduling
from pit_server.cancellation import Cancelled
from pit_server.context import Head
from pit_server.dav.app import MOUNT, DavApp
from pit_server.db import lock, migrate
from pit_server.db.database import Database
from pit_server.host_check import HostCheck
from pit_server.services import cluster
from pit_server.services.files import trash
from pit_server.services.files.quota import Quotas
from pit_server.services.incarnation import takeover
from pit_server.services.nodes.order_specs import OrderSpecs
from pit_server.services.sessions.registry import ProcessSessions
from pit_server.services.users import secrets as user_secrets
from pit_server.services.users.callers import Callers
from pit_server.services.users.rate_limit import TooManyAttempts
from pit_server.services.users.registration import APPROVE, CLOSED, OPEN, Authentication
from pit_server.services.users.request_limits import RequestLimits
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.marks import Marks
from pit_server.wakeups import (
    CLOCK,
    CODE_GC,
    DATA_GC,
    DISK_WATCH,
    ESTIMATING,
    JOB_SPACE,
    NODE_WATCH,
    NOTIFIER,
    PREPARER,
    PURGE,
    SCHEDULER,
    Wakeups,
)

log = logging.getLogger(__name__)
RETRY_AFTER_S = 2
DATABASE_BUSY = Problem("database_busy", "the head's database does not answer", "try again", status=503)
DATABASE_FULL = Problem(
    "database_full",
    "the disk of the head's database is full",
    "free some space on the head's machine, or ask its admin to",
    status=503,
)


DISK_FULL = Problem(
    "disk_full",
    "the head's disk is full",
    "ask an admin for more space, or remove what is not needed",
    status=507,
)


def take_over(settings: Settings) -> int:
    """Begin as the only head of this database, whose lock the caller has; returns the generation.

    The database and the data root then belong together, even if one was restored from a backup.
    """
    database, data = _open(settings, Wakeups())
    try:
        return takeover.begin(database, data)
    finally:
        database.dispose()  # its connections must not be shared with a process that is forked later


def _open(settings: Settings, wakeups: Wakeups) -> tuple[Database, DataRoot]:
    """Open the database and the data root; create what is missing."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    user_secrets.make_key(settings.home)
    database = Database(settings.sqlalchemy_url, wakeups)
    migrate.upgrade(database)
    data = DataRoot(settings.root)
    data.create()
    return database, data


def open_for_command(settings: Settings) -> Head:
    """The head's state for a command at the console; if no head serves it, compared as if one began to."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if held := lock.try_hold(settings.sqlalchemy_url):
        try:
            take_over(settings)
        finally:
            held.close()
    return create_head(settings)


def create_head(settings: Settings, generation: int | None = None) -> Head:
    """Make a head; without a generation, for a command at the console, beside which a head may serve."""
    wakeups = Wakeups()
    database, data = _open(settings, wakeups)
    database.marks, database.generation = Marks(data.root), generation
    with database.write() as session:
        cluster_id = cluster.find_id(session)
    scheduling = Scheduling(database, settings)
    return Head(
        settings=settings,
        wakeups=wakeups,
        database=database,
        data=data,
        scheduling=scheduling,
        estimating=Estimating(database, scheduling, settings),
        node_watch=NodeWatch(database, settings.offline_after_s),
        auth=_authentication(settings, database),
        cluster=cluster_id,
        quotas=Quotas(settings),
        job_space=JobSpace(database, data, settings),
        request_limits=RequestLimits(settings),
        callers=Callers(database),
        order_specs=OrderSpecs(data, settings),
        process_sessions=ProcessSessions(wakeups),
        clock=RetentionClock(data.clock, settings.clock_grace_days),
    )


def _authentication(settings: Settings, database: Database) -> Authentication:
    mode = settings.registration
    if mode == "auto":
        # On loopback too, because every account of the machine can reach the head there.
        mode = APPROVE
    if mode not in (OPEN, APPROVE, CLOSED):
        raise Problem("bad_settings", f"registration must be auto, open, approve or closed, not {mode!r}")
    return Authentication(
        database,
        mode,
        cost=settings.bcrypt_cost,
        per_minute=settings.logins_per_minute,
        token_days=settings.token_days,
    )


def start_background(head: Head) -> None:
    """Start the head's background threads."""
    trash.reconcile(head.database, head.data)
    loop.start("scheduling", head.wakeups, SCHEDULER, head.scheduling)
    loop.start("estimating", head.wakeups, ESTIMATING, head.estimating)
    loop.start("preparing", head.wakeups, PREPARER, Preparing(head.database, head.data, head.settings))
    loop.start("code-gc", head.wakeups, CODE_GC, CodeGc(head.database, head.data, head.settings, head.clock))
    loop.start("node-watch", head.wakeups, NODE_WATCH, head.node_watch)
    data_gc = DataGc(head.database, head.data, head.quotas, head.settings, head.clock)
    loop.start("data-gc", head.wakeups, DATA_GC, data_gc)
    disk_watch = DiskWatch(head.database, head.data, head.quotas, head.settings)
    loop.start("disk-watch", head.wakeups, DISK_WATCH, disk_watch)
    loop.start("job-space", head.wakeups, JOB_SPACE, head.job_space)
    loop.start("clock", head.wakeups, CLOCK, ClockWatch(head.clock))
    loop.start("notifying", head.wakeups, NOTIFIER, Notifying(head.database, head.settings))
    loop.start("purge", head.wakeups, PURGE, Purge(head.database, head.data))


def create_app(head: Head) -> Flask:
    app = Application("pit_server", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.extensions["pit"] = head
    app.before_request(_begin_request)
    app.before_request(check_request)
    app.before_request(check_access)
    app.after_request(mark_answer)
    app.after_request(_name_request)
    app.after_request(revalidate)
    app.teardown_request(end_request)
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {MOUNT: DavApp(head)})  # type: ignore[method-assign]
    if head.settings.proxies:
        proxies = head.settings.proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=proxies, x_proto=proxies)  # type: ignore[method-assign]
    app.wsgi_app = HostCheck(app.wsgi_app, head.settings)  # type: ignore[method-assign]
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint, url_prefix=API_PREFIX + (blueprint.url_prefix or ""))
    for blueprint in (*ROOT_BLUEPRINTS, *web.BLUEPRINTS):
        app.register_blueprint(blueprint)
    app.extensions["pit_traffic"] = make_classifier(app, MOUNT)
    app.register_error_handler(Problem, _problem)
    app.register_error_handler(Cancelled, lambda cancelled: _problem(cancelled.problem))
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(DBAPIError, _database_error)
    app.register_error_handler(OSError, _system_error)
    app.register_error_handler(Exception, _bug)
    return app


def _begin_request() -> None:
    if "gunicorn.socket" not in request.environ:  # whose worker has done it
        log_records.begin_request()


def _name_request(response: Response) -> Response:
    response.headers["X-Request-Id"] = log_records.request_id()
    return response


def _problem(problem: Problem) -> Response:
    if web.is_page():
        response = web.show_problem(problem)
    else:
        response = jsonify(problem.to_json())
        response.status_code = problem.status
        response.mimetype = "application/problem+json"
    if isinstance(problem, TooManyAttempts):
        response.headers["Retry-After"] = str(problem.retry_after_s)
    return response


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    text = (error.description or error.name).rstrip(".")
    return _problem(Problem(error.name.lower().replace(" ", "_"), text[0].lower() + text[1:], status=status))


def _database_error(error: DBAPIError) -> Response:
    head: Head = current_app.extensions["pit"]
    is_full = "full" in str(error.orig) or "No space left" in str(error.orig)
    if is_full:
        head.quotas.set_disk_full(True)
    log.warning("the database is %s: %s", "full" if is_full else "busy or unreachable", error.orig)
    response = _problem(DATABASE_FULL if is_full else DATABASE_BUSY)
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def _system_error(error: OSError) -> Response:
    if error.errno not in NO_SPACE:
        return _bug(error)
    head: Head = current_app.extensions["pit"]
    head.quotas.set_disk_full(True)
    return _problem(DISK_FULL)


def _bug(error: Exception) -> Response:
    reference = log_records.request_id()
    log.error("internal error %s", reference, exc_info=error)
    hint = "the head's log has the details under this reference"
    return _problem(Problem("internal_error", f"internal error, reference {reference}", hint, status=500))
