"""Sites: clusters of others that give allocations, in which pilots run jobs."""
