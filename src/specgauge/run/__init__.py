"""Runs an experiment: plans the starts, serves, loads, records, and survives what goes wrong."""
