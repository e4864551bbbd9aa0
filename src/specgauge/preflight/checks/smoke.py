"""The whole path with a small model: serve, speculative config, completions, metrics."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import requests

from specgauge.config.base import find_named, load
from specgauge.config.model import Model
from specgauge.config.resolve import flags, place
from specgauge.embedded.model import ensure
from specgauge.errors import EnvironmentFault
from specgauge.gpu.device import NvmlFault
from specgauge.gpu.occupancy import wait_free
from specgauge.interrupts import uninterrupted
from specgauge.load.sse import events
from specgauge.preflight.context import RELEASE_WAIT_S, Context
from specgauge.preflight.result import Result, fail, ok, skipped, warn
from specgauge.record.layout import StartPaths
from specgauge.run.runtime import ProcessRuntime
from specgauge.scrape.parse import samples
from specgauge.serve.diagnosis import diagnose
from specgauge.serve.logtail import last_lines
from specgauge.serve.protocol import ServerDied, ServerSpec

READY_LIMIT_S = 600.0
"""A cold compile cache on a GPU took 114 to 173 s."""
ANSWER_LIMIT_S = 120.0
TOKENS = 32
PROMPT = "one two three four five six seven eight " * 12
"""Repeats itself, so that prompt lookup has something to propose."""
SPECULATIVE = {
    "method": "ngram",
    "num_speculative_tokens": 4,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 8,
}
_ENGINE_ARGS = frozenset(
    {
        "enforce-eager", "dtype", "attention-backend", "compilation-config", "async-scheduling",
        "kv-cache-dtype", "block-size", "enable-prefix-caching", "max-num-batched-tokens",
    }
)  # fmt: skip
"""Arguments that decide which kernels and graphs are built: the smoke run takes them from the real
model and experiment.  Those that belong to the real model's size and kind it does not."""
_DRAFTS = "vllm:spec_decode_num_drafts_total"
_TOKENS = "vllm:generation_tokens_total"


def smoke(context: Context) -> Result:
    """A real server, one streamed request, and its counters."""
    if not context.smoke:
        return skipped("not wanted (--no-smoke)")
    if context.compose:
        return skipped(
            "in the stack the small model is a run of its own: make run VARIANT=ngram "
            "RUNTIME=compose EXPERIMENT=ci"
        )
    try:
        model = _model(context)
        folder = _folder(context, model)
    except EnvironmentFault as fault:
        return fail(
            f"no small model for it: {fault}",
            "make setup makes the embedded one; --smoke-model NAME takes another of "
            "config/models; --no-smoke leaves this out",
        )
    with tempfile.TemporaryDirectory(prefix="specgauge-preflight-") as name:
        return _served(context, spec(context, model, folder, Path(name)), model)


def _model(context: Context) -> Model:
    path = find_named(context.project.config("models"), "model", context.smoke_model)
    return load(Model, path, name=path.stem)


def _folder(context: Context, model: Model) -> str:
    if model.embedded is not None:
        return str(ensure(model.embedded, context.project.root, context.say))
    return place(str(model.path), context.project)


def spec(context: Context, model: Model, folder: str, scratch: Path) -> ServerSpec:
    """The small model's server: its own arguments, and the real model's kernels and graphs."""
    server = context.resolved.experiment.server
    args: dict[str, Any] = {
        "host": server.host,
        "port": server.port,
        "served-model-name": model.name,
        "max-model-len": 2048,
    }
    own = {k.replace("_", "-"): v for k, v in model.server_args.items()}
    if context.cpu:
        args |= own
    else:
        # Which kernels and graphs are built is the real model's affair, not this one's.
        args |= {name: value for name, value in own.items() if name not in _ENGINE_ARGS}
        args["gpu-memory-utilization"] = 0.15  # enough for a small model on 24 GB
    real = context.server_args(context.variants[0])
    args |= {name: value for name, value in real.items() if name in _ENGINE_ARGS}
    assert context.found.program is not None
    return ServerSpec(
        id=f"preflight-{secrets.token_hex(4)}",
        argv=[
            *context.found.program,
            folder,
            *flags(args),
            "--speculative-config",
            json.dumps(SPECULATIVE),
        ],
        env={**model.server_env, **server.env},
        host=server.host,
        port=server.port,
        paths=StartPaths(scratch),
        cwd=str(context.project.root),
        ready_timeout_s=min(server.ready_timeout_s, READY_LIMIT_S),
        stop_grace_s=server.stop_grace_s,
    )


def _served(context: Context, spec: ServerSpec, model: Model) -> Result:
    # On a GPU this also verifies that the server is on the card that was asked for.
    runtime = ProcessRuntime(context.found.gpu)
    server = runtime.server(spec, context.resolved.experiment.server, None)
    began = time.monotonic()
    try:
        server.start()
        server.wait_ready(lambda line: context.say(f"smoke: {line}" if line else ""))
        ready_s = time.monotonic() - began
        result = _asked(spec, model)
        if result is not None:
            return result
    except ServerDied as died:
        return _death(spec, str(died))
    finally:
        with uninterrupted():
            server.stop()
    if (left := _not_released(context)) is not None:
        return left
    return ok(
        f"{model.name} with {SPECULATIVE['method']}: ready in {ready_s:.0f} s, {TOKENS} tokens "
        "streamed, drafts counted"
    )


def _death(spec: ServerSpec, died: str) -> Result:
    diagnosis = diagnose(last_lines(spec.paths.server_log))
    if diagnosis is None:
        return fail(died, "its last lines say why")
    return fail(f"{diagnosis.sentence}\n{died}", diagnosis.remedy)


def _asked(spec: ServerSpec, model: Model) -> Result | None:
    """One streamed completion, then the counters; None if all is well."""
    body = {
        "model": model.name, "prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0,
        "ignore_eos": True, "stream": True, "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    with requests.Session() as http:
        http.trust_env = False  # no proxy between us and loopback
        try:
            answer = http.post(f"{spec.url}/v1/completions", json=body, timeout=ANSWER_LIMIT_S)
            metrics = http.get(f"{spec.url}/metrics", timeout=ANSWER_LIMIT_S).text
        except requests.RequestException as error:
            return fail(f"the server does not answer: {error}", "see its log with a run")
    if answer.status_code != requests.codes.ok:
        return fail(
            f"/v1/completions answers {answer.status_code}: {answer.text[:300]}",
            "is this vLLM of a release that specgauge knows (0.8 to 0.33)?",
        )
    tokens = _token_ids(answer.content)
    if tokens != TOKENS:
        return fail(
            f"asked for {TOKENS} tokens, the stream holds {tokens}",
            "vLLM of 0.10 or newer sends token ids; older ones cannot be measured by chunk",
        )
    counted = {
        name: sum(float(value) for n, _, value in samples(metrics) if n == name)
        for name in (_DRAFTS, _TOKENS)
    }
    if counted[_TOKENS] != TOKENS:
        return fail(
            f"the server counts {counted[_TOKENS]:.0f} tokens, {TOKENS} were ours",
            "somebody else uses this port, or its metrics have other names in this release",
        )
    if not counted[_DRAFTS]:
        return warn(
            "not one draft was made for a prompt that repeats itself",
            "did the speculative config reach the server? See its log with a run",
        )
    return None


def _token_ids(body: bytes) -> int:
    count = 0
    for event in events(body):
        if event.data == b"[DONE]":
            continue
        for choice in json.loads(event.data).get("choices") or []:
            count += len(choice.get("token_ids") or [])
    return count


def _not_released(context: Context) -> Result | None:
    """The driver gives memory back some seconds after a process has ended."""
    gpu = context.found.gpu
    if gpu is None:
        return None
    try:
        seen = wait_free(gpu.nvml, gpu.device, RELEASE_WAIT_S, lambda _: True)
    except NvmlFault as fault:
        return fail(f"NVML does not answer after the smoke run: {fault}", "ask who runs the node")
    if seen.free:
        return None
    return fail(f"the GPU's memory did not come back: {seen.words()}", "see whose it is")
