"""WebDAV access to the domains, with the same permissions as the API."""
