"""Processes of jobs: placed, told about each other, reported, lost."""
