"""What commands show of jobs: columns, rows, details, processes."""
