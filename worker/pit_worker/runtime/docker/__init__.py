"""Processes in Docker containers."""
