"""Who runs where: pure functions over values. No database, no clock, no files."""
