"""What the head stores in files: trees, logs, uploads, git mirrors. No database here."""
