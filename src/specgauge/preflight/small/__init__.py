"""A small model's real server, as a process or in the stack: the check ``smoke``."""
