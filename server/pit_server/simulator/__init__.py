"""The scheduler on a trace in virtual time: what a policy or a setting would have done."""
