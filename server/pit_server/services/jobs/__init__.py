"""Rules for jobs: accept, prepare, place, report, end."""
