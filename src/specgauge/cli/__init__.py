"""The verbs a person types.  No logic of their own."""

from specgauge.cli import about, machine, measure
from specgauge.cli.common import main

__all__ = ["about", "machine", "main", "measure"]
