"""Connections of the head: an event loop receives requests, threads of their kind handle them."""
