"""The head's HTTP API as seen by the client: calls, TLS, retries."""
