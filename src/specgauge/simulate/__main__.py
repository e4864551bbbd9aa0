"""Entry point of ``python -m specgauge.simulate``."""

import sys

from specgauge.simulate.cli import main

if __name__ == "__main__":
    sys.exit(main())
