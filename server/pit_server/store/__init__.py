"""What the head keeps in files: trees, logs, uploads, git mirrors. No database here."""
