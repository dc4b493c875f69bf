"""The Model Context Protocol: agents use a head through tools, with the rights of the token."""
