"""``on_graph_failure: eager_for_all``: a run whose graphs cannot be captured, anew without them.

Eager for the one variant that failed would compare unlike servers, so all variants begin anew, in
a run of their own: its fingerprint differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from rich.console import Console

from specgauge.config.resolve import Resolved
from specgauge.run.executor import Request, RunOutcome

FLAG = "enforce-eager"
_LONGEST_ID = 100


def or_eager(
    measure: Callable[[Resolved, Request], RunOutcome],
    resolved: Resolved,
    request: Request,
    console: Console,
) -> RunOutcome:
    """``measure`` it, and once more with graphs off for all where the experiment asks so.

    ``measure``: ``executor.execute`` with all else that it needs.
    Returns the outcome of the last run made.  Raises what ``measure`` does.
    """
    outcome = measure(resolved, request)
    if outcome.graph_failure is None or outcome.interrupted:
        return outcome
    console.print(
        f"CUDA graphs could not be captured ({outcome.graph_failure}): a new run begins with "
        f"--{FLAG} for all variants ('on_graph_failure: eager_for_all'). What was measured so far "
        f"stays in {outcome.paths.folder} and is not mixed with it.",
        style="yellow",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    run_id = request.run_id and f"{request.run_id[: _LONGEST_ID - 6]}-eager"
    return measure(for_all(resolved), dataclasses.replace(request, run_id=run_id))


def for_all(resolved: Resolved) -> Resolved:
    """The same experiment with ``enforce-eager`` for every variant, whatever set it otherwise."""
    experiment = resolved.experiment
    args = {**_without(experiment.server.args), FLAG: True}
    server = experiment.server.model_copy(update={"args": args})
    variants = {
        name: variant.model_copy(update={"server_args": _without(variant.server_args)})
        for name, variant in resolved.variants.items()
    }
    # A second failure of that kind would have another cause: never a third run.
    changed = experiment.model_copy(update={"server": server, "on_graph_failure": "stop"})
    return dataclasses.replace(resolved, experiment=changed, variants=variants)


def _without(args: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in args.items() if name.replace("_", "-") != FLAG}
