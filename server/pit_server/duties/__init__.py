"""What the head does by itself: threads that sleep until a bell rings."""
