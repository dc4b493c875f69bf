"""The HTTP API: blueprints that decode, call and encode, and hold no rules of their own."""

from flask import Blueprint

from pit_server.api import job_files, jobs, me, nodes, overview, uploads

BLUEPRINTS: tuple[Blueprint, ...] = (
    me.blueprint,
    uploads.blueprint,
    jobs.blueprint,
    job_files.blueprint,
    overview.blueprint,
    nodes.blueprint,
    nodes.worker_blueprint,
)
