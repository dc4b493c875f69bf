"""The life of processes on this node, from order to end."""
