"""What runs processes: the interface, plain processes, containers."""
