"""Shared by all routes: access control, audit, bodies, file responses."""
