"""What the worker keeps on disk about its processes."""
