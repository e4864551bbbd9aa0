"""The results folder: its schema, its paths, atomic writes, runs and reading it back."""
