"""Files of the domains, reached by descriptor."""
