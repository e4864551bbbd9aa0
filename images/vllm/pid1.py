"""PID 1 of the vLLM container.  Lies beside specgauge's package, so needs no PYTHONPATH that the
server would inherit."""

import sys

from specgauge.serve.container import main

sys.exit(main())
