"""The cluster on this machine that `pit up` starts."""
