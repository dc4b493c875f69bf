"""From a work tree to a git tree with every file byte for byte."""
