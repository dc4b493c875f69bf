"""The head's background threads, which sleep until they are notified."""
