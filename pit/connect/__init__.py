"""Which head to talk to, and the token for it: the files on this machine that say so."""
