"""What a person sees: tables, progress, prompts, times, sanitized text."""
