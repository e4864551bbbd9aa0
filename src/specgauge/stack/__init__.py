"""The Compose stack: what its containers run, and what ``make`` needs on the host."""
