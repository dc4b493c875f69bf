"""Rules for nodes: joining, capacity, beats, orders."""
