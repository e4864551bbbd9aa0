"""The small model's server in the stack: with its client in one container of the vLLM image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specgauge.config.model import Model
from specgauge.config.resolve import is_folder, place
from specgauge.embedded import catalogue
from specgauge.embedded.model import is_whole
from specgauge.errors import EnvironmentFault
from specgauge.preflight.context import Context
from specgauge.preflight.probe import ask
from specgauge.preflight.result import Result, fail
from specgauge.preflight.small.answer import body, died, judged, unanswered
from specgauge.preflight.small.server import ANSWER_LIMIT_S, argv, env, ready_limit_s
from specgauge.serve.diagnosis import LINES
from specgauge.serve.launchfile import exit_words
from specgauge.serve.redact import STRUCK, secret_values

BIND = ("127.0.0.1", 8000)
"""In a container without a network nobody else is there."""
MODELS, PROJECT_MODELS = Path("/models"), Path("/app/models")
"""Where compose.yaml mounts MODEL_CACHE, and the checkout's ``models/``."""
ENGINE_LIMIT_S = 120.0
"""For the engine to make and to remove a container: from a cold disk, an image of 25 GB."""
_LAST_LINES = 15


def folder_of(context: Context, model: Model) -> str:
    """Where the containers see the model; or its hub name.

    Raises:
        EnvironmentFault: they do not see it.
    """
    cache = context.model_cache()
    if model.embedded is not None:
        entry = catalogue.find(model.embedded)
        if not is_whole(entry, cache / "models" / entry.folder):
            raise EnvironmentFault(f"{entry.name} is not in the mounted cache, {cache}")
        return str(MODELS / "models" / entry.folder)
    placed = place(str(model.path), context.project)
    if not is_folder(placed):
        return placed
    mounted = ((context.project.root / "models", PROJECT_MODELS), (cache, MODELS))
    for outside, inside in mounted:
        if Path(placed).is_relative_to(outside):
            return str(inside / Path(placed).relative_to(outside))
    raise EnvironmentFault(
        f"the containers see {mounted[0][0]} and {cache}, not {placed} (model {model.name!r})"
    )


def served(context: Context, model: Model, folder: str) -> float | Result:
    """Seconds until it was ready, if all was right; else what was not."""
    containers = context.found.containers
    assert containers is not None  # without an engine and the image there is no smoke run
    words = argv(context, model, folder, BIND, cpu=containers.stack.cpu)
    own, ready_s = env(context, model), ready_limit_s(context)
    grace_s = context.resolved.experiment.server.stop_grace_s
    secrets = secret_values(own, words)
    question = {
        "argv": words,
        "env": own,
        "url": f"http://{BIND[0]}:{BIND[1]}",
        "body": body(model.name),
        "ready_s": ready_s,
        "answer_s": ANSWER_LIMIT_S,
        "grace_s": grace_s,
        "lines": LINES,
    }
    limit_s = ready_s + 2 * ANSWER_LIMIT_S + grace_s + ENGINE_LIMIT_S

    def tell(line: str) -> None:
        context.say(f"smoke: {_clean(line, secrets)}" if line else "")

    answer = ask(containers.python, "serve", context.server_env(), limit_s, question, tell)
    if answer.value is not None:
        return _found(answer.value, secrets, ready_s)
    said = _clean(answer.said, secrets)
    if answer.timed_out:
        return fail(
            f"the container of {containers.image} did not end: {said}",
            "does 'docker ps' answer? A longer limit: 'server: ready_timeout_s:' in the experiment",
        )
    return fail(
        f"no container of {containers.image} ran to its end: {said}",
        "docs/compose.md tells what Docker's messages mean ('When it does not work')",
    )


def _found(told: dict[str, Any], secrets: list[bytes], ready_s: float) -> float | Result:
    lines = [_clean(line, secrets) for line in told["log"]]
    if told["ready_s"] is not None:
        if told["failed"] is None:
            wrong = judged(told["status"], told["answer"].encode(), told["metrics"])
            return wrong or float(told["ready_s"])
        if told["exit_code"] is None:
            return unanswered(told["failed"])
        how = f"the server ended while it was asked: {exit_words(told['exit_code'])}"
    elif told["failed"] is not None:
        how = told["failed"]
    elif told["exit_code"] is None:
        how = f"the server was not ready within {ready_s:.0f} s ('server: ready_timeout_s:')"
    else:
        how = f"the server ended before it was ready: {exit_words(told['exit_code'])}"
    last = "".join(f"\n  | {line[:200]}" for line in lines[-_LAST_LINES:])
    return died(f"{how}. " + (f"Its last lines:{last}" if last else "It printed nothing."), lines)


def _clean(text: str, secrets: list[bytes]) -> str:
    """The secrets struck out."""
    for secret in secrets:
        text = text.replace(secret.decode(), STRUCK)
    return text
