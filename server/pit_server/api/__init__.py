"""The HTTP API: blueprints that decode, call and encode, and hold no rules of their own."""

from flask import Blueprint

from pit_server.api import (
    aliases,
    audit,
    door,
    groups,
    job_files,
    jobs,
    me,
    nodes,
    overview,
    uploads,
    users,
    worker,
)

_MODULES = (me, door, users, groups, aliases, uploads, jobs, job_files, overview, nodes, audit, worker)
BLUEPRINTS: tuple[Blueprint, ...] = tuple(module.blueprint for module in _MODULES)
