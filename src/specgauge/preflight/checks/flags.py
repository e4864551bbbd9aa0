"""Does this vLLM know every flag?  Its own parser says so, long before a model is loaded."""

from __future__ import annotations

import re

from specgauge.config.resolve import flags as words_of
from specgauge.preflight.checks.server import serves_vllm
from specgauge.preflight.context import Context
from specgauge.preflight.probe import bounded
from specgauge.preflight.result import Result, fail, ok, skipped, warn
from specgauge.serve.diagnosis import where_set

LIMIT_S = 180.0
"""vLLM's command line imports most of vLLM: 12 s here, a minute from a cold network disk."""
UNKNOWN = "--specgauge-asks-for-the-usage-error"
"""A flag that no vLLM knows: its parser then ends with all the flags that it does not know,
before anything is loaded."""


def flags(context: Context) -> Result:
    """All flags of all variants at once, and one that cannot be known."""
    program = context.found.program
    if program is None or context.found.python is None:
        return skipped("the server's program is not known")
    if not serves_vllm(context):
        return skipped(f"{program[0]} is not vLLM's command line")
    if context.compose:  # the image's vLLM, by the Python that is asked there
        program = [*context.found.python, "-m", "vllm.entrypoints.cli.main", "serve"]
    words: list[str] = []
    for variant in context.variants:
        words += words_of(context.server_args(variant))
        words += _speculative(context, variant)
    command = [*program, "some/model", *words, UNKNOWN]
    status, out, err, late = bounded(command, context.server_env(), LIMIT_S)
    said = f"{out}\n{err}"
    if late:
        return warn(f"vLLM's parser did not answer within {LIMIT_S:.0f} s", "try again")
    if (bad := re.search(r"error: (argument .*)", said)) is not None:
        return fail(f"a flag's value is refused: {bad[1]}", _where(context, bad[1]))
    unknown = re.search(r"unrecognized arguments: (.*)", said)
    if unknown is None:
        last = next((line for line in reversed(said.splitlines()) if line.strip()), "nothing")
        return warn(
            f"vLLM's command line ended with {status}, and not over its flags: {last[:300]}",
            "the smoke run will tell more",
        )
    refused = [word for word in unknown[1].split() if word.startswith("--") and word != UNKNOWN]
    if refused:
        places = "; ".join(where_set(word, context.resolved) for word in refused)
        return fail(
            f"this vLLM does not know {', '.join(refused)}",
            f"remove it or give its new name: {places}",
        )
    return ok(f"vLLM's parser knows all of them ({len([w for w in words if w[:2] == '--'])})")


def _speculative(context: Context, variant: str) -> list[str]:
    given = context.resolved.variants[variant].speculative_config
    return [] if given is None else ["--speculative-config", "{}"]


def _where(context: Context, text: str) -> str:
    found = re.search(r"--[\w-]+", text)
    return where_set(found[0], context.resolved) if found else "see the experiment's server args"
