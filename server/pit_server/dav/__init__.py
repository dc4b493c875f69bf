"""The domains by WebDAV, beside the API and with the same rights."""
