"""Which process runs on which node: pure functions over values. No database, no clock, no files."""
