"""Sessions of users in running processes: who may have one, and how client and worker are connected."""
