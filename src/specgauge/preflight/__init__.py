"""What can fail in a second fails before what takes an hour: checks, cheapest first."""
