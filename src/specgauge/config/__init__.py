"""Experiments, variants, models and workloads as data: one concept a file."""
