"""Sessions in running processes, at the user's end: commands, terminals, forwarded ports."""
