"""What vLLM's own log says: statistics lines and engine traits, by field name."""
