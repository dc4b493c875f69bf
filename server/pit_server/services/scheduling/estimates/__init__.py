"""When waiting jobs will start, and how good these estimates are."""
