"""The head as the worker calls it: HTTP and TLS."""
