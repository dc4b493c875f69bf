"""Measurements of the whole, each next to a floor measured in the same run. `make bench` runs them."""
