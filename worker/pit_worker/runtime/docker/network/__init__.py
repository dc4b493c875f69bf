"""Private networks of jobs, their addresses, and the firewall around them."""
