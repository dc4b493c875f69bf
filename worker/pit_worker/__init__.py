"""The worker: the daemon on a node that runs processes as the head orders."""
