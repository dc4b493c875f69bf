"""What `pit-head` does besides serving: set up, install, back up and restore."""
