"""The Compose way: engine, GPUs for containers, images; then questions go into the vLLM image."""

from __future__ import annotations

from specgauge.errors import SpecgaugeError
from specgauge.preflight.containers import Containers
from specgauge.preflight.context import Context
from specgauge.preflight.result import Result, fail, ok, skipped
from specgauge.stack.choose import ready_stack
from specgauge.stack.doctor import examine
from specgauge.stack.engine import at_work


def docker(context: Context) -> Result:
    """What ``specgauge doctor`` looks at, and whether the stack could run this model now."""
    if not context.compose:
        return skipped("servers run as processes here (--runtime process)")
    root = context.project.root
    findings = list(examine(root))
    wrong = [finding.text for finding in findings if finding.ok is False]
    # A CPU model needs no GPU to be chosen.
    wrong = [text for text in wrong if not (context.cpu and text.startswith("no GPU is chosen"))]
    if wrong:
        return fail("; ".join(wrong), "'specgauge doctor' lists everything it looked at")
    try:
        stack = ready_stack(root, context.resolved.model)
    except SpecgaugeError as error:
        return fail(str(error), "docs/compose.md has the steps")
    if busy := at_work(stack.engine.project(stack.project)):
        return fail(
            f"this checkout's stack is at work: {'; '.join(one.words() for one in busy)}",
            "wait for it: this preflight would disturb its numbers; 'make down' stops it",
        )
    context.found.containers = Containers(stack, root)
    context.found.python = context.found.containers.python
    return ok("; ".join(finding.text.splitlines()[0] for finding in findings if finding.ok))
