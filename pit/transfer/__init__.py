"""Copying files between this machine and the head."""
