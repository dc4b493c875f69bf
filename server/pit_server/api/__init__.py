"""The HTTP API: blueprints that decode, call and encode, and hold no rules of their own."""

from flask import Blueprint

from pit_server.api.routes import (
    aliases,
    audit,
    auth,
    file_changes,
    files,
    groups,
    me,
    monitoring,
    nodes,
    openapi,
    sites,
    users,
)
from pit_server.api.routes.jobs import (
    job_files,
    jobs,
    overview,
    process_sessions,
    queue,
    snapshots,
    uploads,
    why,
)
from pit_server.api.routes.worker import node_data, sessions, site_agents

_MODULES = (
    me,
    auth,
    users,
    groups,
    aliases,
    snapshots,
    uploads,
    jobs,
    job_files,
    overview,
    process_sessions,
    queue,
    why,
    nodes,
    sites,
    audit,
    sessions,
    node_data,
    site_agents,
    files,
    file_changes,
    openapi,
)
BLUEPRINTS: tuple[Blueprint, ...] = tuple(module.blueprint for module in _MODULES)
ROOT_BLUEPRINTS: tuple[Blueprint, ...] = (monitoring.blueprint,)  # their paths have no prefix
