"""GPUs: discovery, health, usage, release."""
