"""Load generation: Locust users that stream completions and record every chunk's true time."""
