"""One check, or a few that belong together, a file; ``registry.py`` has their order."""
