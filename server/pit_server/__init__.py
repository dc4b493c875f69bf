"""The head: it schedules jobs, stores all state, and serves clients and workers."""
