"""The exchange with the head: two threads, and the content of a beat."""
