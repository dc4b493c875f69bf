"""When a head begins: whether its database is older than its data root, and what then happens to both."""
