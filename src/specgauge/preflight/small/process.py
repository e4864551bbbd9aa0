"""The small model's server as a process of this machine."""

from __future__ import annotations

import secrets
import tempfile
import time
from pathlib import Path

import requests

from specgauge.config.model import Model
from specgauge.config.resolve import place
from specgauge.embedded.model import ensure
from specgauge.interrupts import uninterrupted
from specgauge.preflight.context import Context
from specgauge.preflight.result import Result
from specgauge.preflight.small.answer import body, died, judged, unanswered
from specgauge.preflight.small.server import ANSWER_LIMIT_S, argv, env, ready_limit_s
from specgauge.record.layout import StartPaths
from specgauge.run.runtime import ProcessRuntime
from specgauge.serve.logtail import last_lines
from specgauge.serve.protocol import ServerDied, ServerSpec


def folder_of(context: Context, model: Model) -> str:
    """Where the model is, made if it is an embedded one; or its hub name.

    Raises:
        EnvironmentFault: it cannot be made.
    """
    if model.embedded is not None:
        return str(ensure(model.embedded, context.project.root, context.say))
    return place(str(model.path), context.project)


def spec(context: Context, model: Model, folder: str, scratch: Path) -> ServerSpec:
    """Its start, with its records in ``scratch``."""
    server = context.resolved.experiment.server
    return ServerSpec(
        id=f"preflight-{secrets.token_hex(4)}",
        argv=argv(context, model, folder, (server.host, server.port), cpu=context.cpu),
        env=env(context, model),
        host=server.host,
        port=server.port,
        paths=StartPaths(scratch),
        cwd=str(context.project.root),
        ready_timeout_s=ready_limit_s(context),
        stop_grace_s=server.stop_grace_s,
    )


def served(context: Context, model: Model, folder: str) -> float | Result:
    """Seconds until it was ready, if all was right; else what was not."""
    with tempfile.TemporaryDirectory(prefix="specgauge-preflight-") as name:
        return _served(context, model, spec(context, model, folder, Path(name)))


def _served(context: Context, model: Model, spec: ServerSpec) -> float | Result:
    # On a GPU this also verifies that the server is on the card that was asked for.
    runtime = ProcessRuntime(context.found.gpu)
    server = runtime.server(spec, context.resolved.experiment.server, None)
    began = time.monotonic()
    try:
        server.start()
        server.wait_ready(lambda line: context.say(f"smoke: {line}" if line else ""))
        ready_s = time.monotonic() - began
        return _asked(spec, model) or ready_s
    except ServerDied as death:
        return died(str(death), last_lines(spec.paths.server_log))
    finally:
        with uninterrupted():
            server.stop()


def _asked(spec: ServerSpec, model: Model) -> Result | None:
    """One streamed completion, then the counters; None if all is well."""
    with requests.Session() as http:
        http.trust_env = False  # no proxy between us and loopback
        try:
            answer = http.post(
                f"{spec.url}/v1/completions", json=body(model.name), timeout=ANSWER_LIMIT_S
            )
            metrics = http.get(f"{spec.url}/metrics", timeout=ANSWER_LIMIT_S).text
        except requests.RequestException as error:
            return unanswered(str(error))
    return judged(answer.status_code, answer.content, metrics)
