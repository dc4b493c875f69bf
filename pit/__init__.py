"""The command line client: snapshots a git project, sends it to a head, shows what becomes of it."""
