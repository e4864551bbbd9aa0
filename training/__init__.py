"""Trains an EAGLE3 drafter for SmolLM2-135M-Instruct on the model's own answers."""
