"""specgauge: does speculative decoding pay here, and can the number be trusted?"""

__version__ = "0.1.0"
