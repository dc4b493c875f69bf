"""Inside a running process of a job: which one to enter, and commands and connections there."""
