"""``python -m specgauge.cli``."""

from specgauge.cli import main

if __name__ == "__main__":
    main()
