"""What `pit show` prints, one noun per file."""
