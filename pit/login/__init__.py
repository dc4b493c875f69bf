"""Logging in: the dialog, trust on first use, and an open session with a head."""
