"""The language that client, head and worker share: states, messages, problems."""

__version__ = "0.1.0"
API_PREFIX = "/api/v1"
