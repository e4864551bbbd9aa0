"""From records to figures and verdicts: pure functions, no I/O."""
