"""What programs send to the head; `answers` has what it answers."""
