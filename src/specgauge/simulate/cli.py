"""``python -m specgauge.simulate``: a stand-in for ``vllm serve``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from specgauge.errors import UsageError
from specgauge.simulate.arguments import parse
from specgauge.simulate.truth import Truth, parse_truth

_HELP = """\
usage: python -m specgauge.simulate [model] [any flag of vllm serve]
                                    [--truth JSON|FILE] [--truth-out FILE]

A server in vLLM's shape whose behaviour is planted.  Used of vLLM's flags: --host, --port (0: a
free one), --served-model-name, --speculative-config, --max-num-seqs, --enforce-eager,
--jit-monitor-verbose, --enable-prompt-tokens-details, --no-enable-prefix-caching,
--no-async-scheduling, --disable-uvicorn-access-log.  Others are accepted and have no effect.

  --truth      the planted truth, inline or a file (or SPECGAUGE_SIM_TRUTH)
  --truth-out  where to write what it really did, JSON lines (or SPECGAUGE_SIM_TRUTH_OUT)
  --schema     print the JSON Schema of the truth
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to end.  Returns the exit code; 2 for a command line or truth at fault."""
    words = sys.argv[1:] if argv is None else argv
    if "--help" in words or "-h" in words:
        sys.stdout.write(_HELP)
        return 0
    if "--schema" in words:
        sys.stdout.write(json.dumps(Truth.model_json_schema(), indent=2) + "\n")
        return 0
    try:
        arguments = parse(words)
        truth = parse_truth(arguments.truth)
        from specgauge.simulate.server import Server

        server = Server(truth, arguments)
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    return server.run()
