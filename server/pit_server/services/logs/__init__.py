"""A job's log: events rendered as text, and streams merged by time."""
