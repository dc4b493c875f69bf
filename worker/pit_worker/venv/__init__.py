"""Python environments of jobs: built on the node by the job itself, kept for the next one."""
