"""Lengths of time in seconds."""

DAY_S = 86_400.0
