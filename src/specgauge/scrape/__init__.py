"""Scrapes of ``/metrics``: a process that collects them, and their reading as time series."""
