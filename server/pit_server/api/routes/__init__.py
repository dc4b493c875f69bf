"""The routes, one noun per file: decode, call a service, encode."""
