"""The language that client, head and worker share: states, messages, problems."""

__version__ = "0.2.0"
PROTOCOL = 2  # raised when a client or a worker can no longer work with the head of another version
API_PREFIX = "/api/v1"
