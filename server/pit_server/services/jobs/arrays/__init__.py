"""Arrays: jobs of many elements, each of which is a job with a row of its own from its start on."""
