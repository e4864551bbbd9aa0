"""A server in vLLM's shape with planted truth: it says exactly what it really did."""
