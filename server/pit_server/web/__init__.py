"""The web page: views that call services, and templates. Buttons call the API, as every client does."""

from flask import Blueprint

from pit_server.web import assets, events, session
from pit_server.web.errors import is_page, show_problem
from pit_server.web.pages import admin, cluster, home, job, job_tabs, jobs, nodes, run

_MODULES = (session, assets, events, home, jobs, job, job_tabs, nodes, cluster, run, admin)
BLUEPRINTS: tuple[Blueprint, ...] = tuple(module.blueprint for module in _MODULES)

__all__ = ["BLUEPRINTS", "is_page", "show_problem"]
