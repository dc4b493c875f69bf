"""Arrays: many elements of one job, and how they are numbered and described."""
