"""Start, await, log and stop a vLLM server."""
