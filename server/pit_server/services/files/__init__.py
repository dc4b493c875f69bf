"""Rules for files: domains, quotas, ownership, trash."""
