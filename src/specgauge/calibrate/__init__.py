"""Calibration: planted truth through the whole pipeline, and what it made of it."""
