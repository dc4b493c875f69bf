"""What workers call."""
