"""End-to-end benchmarks (`make bench`). Each figure is compared with a baseline from the same run."""
