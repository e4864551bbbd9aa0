"""``python -m specgauge.simulate``: a stand-in for ``vllm serve``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from specgauge.errors import UsageError
from specgauge.simulate.arguments import parse
from specgauge.simulate.truth import parse_truth


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to end.  Returns the exit code; 2 for a command line or truth at fault."""
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        truth = parse_truth(arguments.truth)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    from specgauge.simulate.server import Server

    return Server(truth, arguments).run()
