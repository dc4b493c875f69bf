"""Rules for users: accounts, groups, tokens, permissions."""
