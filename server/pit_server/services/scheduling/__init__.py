"""What the scheduler decides on, read from the database as values."""
