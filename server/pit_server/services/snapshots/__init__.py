"""Rules for code: what a client sends, where objects come from, how long they are kept."""
