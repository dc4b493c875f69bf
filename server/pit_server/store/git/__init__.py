"""The head's git repositories, and running git."""
