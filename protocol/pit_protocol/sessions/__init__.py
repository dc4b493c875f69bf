"""Sessions inside a running process: WebSockets from client and worker to the head, and what they carry."""
