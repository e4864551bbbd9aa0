"""The HTTP interface: vLLM's paths, answers and error bodies."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from specgauge.simulate.arguments import Arguments
from specgauge.simulate.completions import EventWriter, error_object, usage_object, whole_answer
from specgauge.simulate.driver import Driver
from specgauge.simulate.logs import Log
from specgauge.simulate.outbox import Outbox
from specgauge.simulate.planted import RequestFault
from specgauge.simulate.stream import ENGINE_DEAD, CompletionStream
from specgauge.simulate.tokens import render_chat, token_text, tokenize
from specgauge.simulate.truth import Truth
from specgauge.simulate.truth_log import TruthLog

_DEFAULT_MAX_TOKENS = 16
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Handler = Callable[[HttpRequest], Awaitable[Response]]


class Routes:
    """Handlers of one server."""

    def __init__(
        self, driver: Driver, truth: Truth, arguments: Arguments, log: Log, truth_log: TruthLog
    ) -> None:
        self._driver = driver
        self._truth = truth
        self._arguments = arguments
        self._log = log
        self._truth_log = truth_log
        self._fingerprint = f"vllm-{truth.version}-5a3c0de5"

    def app(self) -> Starlette:
        """The application."""
        paths: list[tuple[str, str, Any]] = [
            ("GET", "/health", self.health),
            ("GET", "/ping", self.health),
            ("POST", "/ping", self.health),
            ("GET", "/version", self.version),
            ("GET", "/load", self.load),
            ("GET", "/metrics", self.metrics),
            ("GET", "/v1/models", self.models),
            ("POST", "/tokenize", self.tokenize),
            ("POST", "/detokenize", self.detokenize),
            ("POST", "/v1/completions", self.completions),
        ]
        if self._arguments.dev_mode:
            paths.append(("POST", "/reset_prefix_cache", self.reset_prefix_cache))
            paths.append(("GET", "/server_info", self.server_info))
        return Starlette(routes=[Route(p, h, methods=[m]) for m, p, h in paths])

    async def health(self, _: HttpRequest) -> Response:
        """200 once the engine is up; 503 when it is not, or dead."""
        up = self._driver.ready and not self._driver.dead
        return Response(status_code=200 if up else 503)

    async def version(self, _: HttpRequest) -> Response:
        """The planted version."""
        return JSONResponse({"version": self._truth.version})

    async def load(self, _: HttpRequest) -> Response:
        """Requests in the server."""
        engine = self._driver.engine
        return JSONResponse({"server_load": len(engine.running) + len(engine.waiting)})

    async def metrics(self, _: HttpRequest) -> Response:
        """Prometheus' text form, made in a thread so that the steps keep their time."""
        body = await asyncio.to_thread(self._driver.recorder.metrics.exposition)
        return Response(body, media_type=_METRICS_TYPE)

    async def models(self, _: HttpRequest) -> Response:
        """The one model."""
        card = {
            "id": self._arguments.served_model_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": self._arguments.model,
            "parent": None,
            "max_model_len": self._truth.max_model_len,
        }
        return JSONResponse({"object": "list", "data": [card]})

    async def tokenize(self, http: HttpRequest) -> Response:
        """A text's ids, or those of messages in a chat template."""
        body = await _json(http)
        if body is None:
            return _bad("The body is not a JSON object.")
        if "messages" in body:
            text = render_chat(body["messages"], bool(body.get("add_generation_prompt", True)))
        elif isinstance(body.get("prompt"), str):
            text = body["prompt"]
        else:
            return _bad("Either 'prompt' or 'messages' is required.")
        ids = tokenize(text, self._truth.vocabulary)
        strings = [token_text(i) for i in ids] if body.get("return_token_strs") else None
        return JSONResponse(
            {
                "count": len(ids),
                "max_model_len": self._truth.max_model_len,
                "tokens": ids,
                "token_strs": strings,
            }
        )

    async def detokenize(self, http: HttpRequest) -> Response:
        """The texts of output tokens."""
        body = await _json(http) or {}
        return JSONResponse({"prompt": "".join(token_text(i) for i in body.get("tokens", []))})

    async def reset_prefix_cache(self, _: HttpRequest) -> Response:
        """Empty the prefix cache; fails while requests run."""
        self._log.line("Resetting prefix cache...", "api_router.py:39")
        success = self._driver.reset_prefix_cache()
        if success:
            self._log.line("Successfully reset prefix cache", "block_pool.py:861", "EngineCore")
        else:
            held = len(self._driver.engine.running)
            self._log.warning_line(
                f"Failed to reset prefix cache because some blocks ({held}) are not freed yet",
                "block_pool.py:850",
                "EngineCore",
            )
        return JSONResponse({"success": success})

    async def server_info(self, _: HttpRequest) -> Response:
        """The flags that the server was started with."""
        return JSONResponse({"vllm_config": self._arguments.non_default()})

    async def completions(self, http: HttpRequest) -> Response | ASGIApp:
        """One completion, streamed or whole."""
        body = await _json(http)
        if body is None:
            return _bad("The body is not a JSON object.")
        fault = self._driver.next_fault()
        if self._driver.dead or not self._driver.ready:
            return _error(ENGINE_DEAD, "InternalServerError", 500)
        if fault is not None and fault.kind == "status":
            return _error("Simulated failure of this request.", "InternalServerError", fault.status)
        if body.get("model") not in (None, self._arguments.served_model_name):
            message = f"The model `{body['model']}` does not exist."
            return _error(message, "NotFoundError", 404, "model")
        prompt = self._prompt(body.get("prompt"))
        if prompt is None:
            return _bad("The simulator takes one prompt: a text or a list of token ids.", "prompt")
        max_tokens = body.get("max_tokens")
        max_tokens = _DEFAULT_MAX_TOKENS if max_tokens is None else max_tokens
        if not isinstance(max_tokens, int) or max_tokens < 1:
            return _bad(f"max_tokens must be at least 1, got {max_tokens}.", "max_tokens")
        limit = min(self._truth.max_model_len, self._truth.kv_cache_tokens)
        if len(prompt) + max_tokens > limit:
            return _bad(
                f"This model's maximum context length is {limit} tokens. However, you requested "
                f"{max_tokens} output tokens and your prompt contains {len(prompt)} input tokens.",
                "input_tokens",
            )
        return await self._answer(body, prompt, max_tokens, fault)

    async def _answer(
        self, body: dict[str, Any], prompt: list[int], max_tokens: int, fault: RequestFault | None
    ) -> Response | ASGIApp:
        temperature = body.get("temperature")
        outbox = self._driver.submit(
            prompt,
            max_tokens,
            ignore_eos=bool(body.get("ignore_eos")),
            temperature=1.0 if temperature is None else float(temperature),
            seed=int(body.get("seed") or 0),
            fault=fault,
        )
        identifier = f"cmpl-{uuid.uuid4().hex[:16]}"
        with_ids = bool(body.get("return_token_ids"))
        if not body.get("stream"):
            return await self._whole(outbox, identifier, with_ids)
        options = body.get("stream_options") or {}
        writer = EventWriter(
            identifier,
            int(time.time()),
            self._arguments.served_model_name,
            self._fingerprint,
            with_ids,
        )
        return CompletionStream(
            self._driver,
            outbox,
            writer,
            self._truth_log,
            include_usage=bool(options.get("include_usage")),
            prompt_details=self._arguments.prompt_details,
        )

    async def _whole(self, outbox: Outbox, identifier: str, with_ids: bool) -> Response:
        request = outbox.request
        ids: list[int] = []
        while True:
            piece = await outbox.take()
            if piece is None:
                return _error(ENGINE_DEAD, "InternalServerError", 500)
            ids.extend(piece.token_ids)
            if piece.finished is not None:
                break
        self._truth_log.write(
            "done",
            request=request.arrival,
            tokens=len(ids),
            finish_reason=piece.finished,
            cached_tokens=request.cached,
        )
        cached = request.cached if self._arguments.prompt_details else None
        usage = usage_object(len(request.prompt), len(ids), cached)
        answer = whole_answer(
            identifier,
            int(time.time()),
            self._arguments.served_model_name,
            self._fingerprint,
            ids,
            piece.finished,
            request.prompt,
            with_ids,
            usage,
        )
        return JSONResponse(answer)

    def _prompt(self, prompt: Any) -> list[int] | None:
        if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
            prompt = prompt[0]
        if isinstance(prompt, str):
            return tokenize(prompt, self._truth.vocabulary) or None
        if isinstance(prompt, list) and prompt and all(isinstance(t, int) for t in prompt):
            return prompt
        return None


async def _json(http: HttpRequest) -> dict[str, Any] | None:
    try:
        body = await http.json()
    except json.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _error(message: str, kind: str, code: int, parameter: str | None = None) -> Response:
    return JSONResponse(error_object(message, kind, code, parameter), status_code=code)


def _bad(message: str, parameter: str | None = None) -> Response:
    return _error(message, "BadRequestError", 400, parameter)
