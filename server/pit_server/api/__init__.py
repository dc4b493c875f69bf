"""The HTTP API: blueprints that decode, call and encode, and hold no rules of their own."""

from flask import Blueprint

from pit_server.api.routes import (
    aliases,
    audit,
    auth,
    file_changes,
    files,
    groups,
    job_files,
    jobs,
    me,
    node_data,
    nodes,
    overview,
    snapshots,
    uploads,
    users,
    worker,
)

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
    nodes,
    audit,
    worker,
    node_data,
    files,
    file_changes,
)
BLUEPRINTS: tuple[Blueprint, ...] = tuple(module.blueprint for module in _MODULES)
