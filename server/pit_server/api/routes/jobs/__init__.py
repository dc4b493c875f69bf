"""Jobs: their snapshots, records, logs and directories."""
