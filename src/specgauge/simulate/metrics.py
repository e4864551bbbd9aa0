"""``/metrics`` with vLLM's names, labels and buckets, in a registry of its own."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from specgauge.simulate.engine import Emission, Engine, Step

_LATENCY = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
_LATENCY_BUCKETS = (*_LATENCY, 1920, 7680)
_TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20),
    *(40, 80, 160, 640, 2560),
)
_ITL_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40),
    80,
)
_ITERATION_BUCKETS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_TOKEN_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_LABELS = ("model_name", "engine")


class Metrics:
    """Counters, gauges and histograms of one server process."""

    def __init__(self, model: str, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._model = model
        self._drafts: _SpecDecode | None = None
        if engine.drafter.k:
            self._drafts = _SpecDecode(self, engine.drafter.k)
        self._running = self._gauge(
            "num_requests_running", "Number of requests in model execution batches."
        )
        self._waiting = self._gauge(
            "num_requests_waiting", "Number of requests waiting to be processed."
        )
        self._usage = self._gauge(
            "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."
        )
        self._queries = self.counter(
            "prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens."
        )
        self._hits = self.counter(
            "prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."
        )
        self._preemptions = self.counter(
            "num_preemptions", "Cumulative number of preemption from the engine."
        )
        self._prompt = self.counter("prompt_tokens", "Number of prefill tokens processed.")
        self._cached = self.counter(
            "prompt_tokens_cached", "Number of cached prompt tokens (local + external)."
        )
        self._generated = self.counter(
            "generation_tokens", "Number of generation tokens processed."
        )
        success = Counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            (*_LABELS, "finished_reason"),
            registry=self.registry,
        )
        self._success = {r: success.labels(model, "0", r) for r in _FINISH_REASONS}
        self._histograms(model)

    def _histograms(self, model: str) -> None:
        self._prompt_tokens = self._histogram(
            "request_prompt_tokens", "Number of prefill tokens processed.", _TOKEN_BUCKETS
        )
        self._generation_tokens = self._histogram(
            "request_generation_tokens", "Number of generation tokens processed.", _TOKEN_BUCKETS
        )
        self._iteration = self._histogram(
            "iteration_tokens_total",
            "Histogram of number of tokens per engine_step.",
            _ITERATION_BUCKETS,
        )
        self._ttft = self._histogram(
            "time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            _TTFT_BUCKETS,
        )
        self._itl = self._histogram(
            "inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            _ITL_BUCKETS,
        )
        self._tpot = self._histogram(
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            _ITL_BUCKETS,
        )
        phases = {
            "e2e_request_latency": "e2e request latency in seconds",
            "request_queue_time": "time spent in WAITING phase for request",
            "request_inference_time": "time spent in RUNNING phase for request",
            "request_prefill_time": "time spent in PREFILL phase for request",
            "request_decode_time": "time spent in DECODE phase for request",
        }
        self._phases = {
            name: self._histogram(f"{name}_seconds", f"Histogram of {what}.", _LATENCY_BUCKETS)
            for name, what in phases.items()
        }

    def counter(self, name: str, documentation: str) -> Counter:
        """A vLLM counter of this model and engine."""
        metric = Counter(f"vllm:{name}", documentation, _LABELS, registry=self.registry)
        return metric.labels(self._model, "0")

    def _gauge(self, name: str, documentation: str) -> Gauge:
        metric = Gauge(f"vllm:{name}", documentation, _LABELS, registry=self.registry)
        return metric.labels(self._model, "0")

    def _histogram(self, name: str, documentation: str, buckets: Sequence[float]) -> Histogram:
        metric = Histogram(
            f"vllm:{name}", documentation, _LABELS, buckets=buckets, registry=self.registry
        )
        return metric.labels(self._model, "0")

    def observe(
        self, step: Step, emissions: Sequence[Emission], engine: Engine, now: float
    ) -> None:
        """Count a step that ended at ``now``."""
        self._queries.inc(step.queries)
        self._hits.inc(step.hits)
        self._preemptions.inc(step.preempted)
        tokens = sum(len(e.token_ids) for e in emissions)
        self._generated.inc(tokens)
        prompt = 0
        for emission in emissions:
            if emission.first:
                prompt += len(emission.request.prompt)
                self._cached.inc(emission.request.cached)
                self._ttft.observe(now - emission.request.t_arrival)
            elif emission.gap_s is not None:
                self._itl.observe(emission.gap_s)
            if self._drafts is not None and emission.draft is not None:
                self._drafts.observe(emission.draft.proposed, emission.draft.accepted)
            if emission.finished:
                self._finished(emission, now)
        self._prompt.inc(prompt)
        self._iteration.observe(step.prefill + tokens)
        self.state(engine)

    def _finished(self, emission: Emission, now: float) -> None:
        request = emission.request
        scheduled = request.t_scheduled or request.t_arrival
        first, last = request.t_first or now, request.t_last or now
        self._success[emission.finished or "length"].inc()
        self._prompt_tokens.observe(len(request.prompt))
        self._generation_tokens.observe(request.emitted)
        self._tpot.observe((last - first) / (request.emitted - 1) if request.emitted > 1 else 0)
        self._phases["e2e_request_latency"].observe(now - request.t_arrival)
        self._phases["request_queue_time"].observe(scheduled - request.t_arrival)
        self._phases["request_inference_time"].observe(last - scheduled)
        self._phases["request_prefill_time"].observe(first - scheduled)
        self._phases["request_decode_time"].observe(last - first)

    def aborted(self) -> None:
        """A client went away."""
        self._success["abort"].inc()

    def state(self, engine: Engine) -> None:
        """Set the gauges."""
        self._running.set(len(engine.running))
        self._waiting.set(len(engine.waiting))
        self._usage.set(engine.cache_usage)

    def exposition(self) -> bytes:
        """The body of ``/metrics``."""
        return generate_latest(self.registry)


class _SpecDecode:
    """The spec_decode counters: they exist only with a speculative config."""

    def __init__(self, metrics: Metrics, k: int) -> None:
        self._drafts = metrics.counter("spec_decode_num_drafts", "Number of spec decoding drafts.")
        self._draft_tokens = metrics.counter(
            "spec_decode_num_draft_tokens", "Number of draft tokens."
        )
        self._accepted = metrics.counter(
            "spec_decode_num_accepted_tokens", "Number of accepted tokens."
        )
        per_position = Counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Accepted tokens per draft position.",
            (*_LABELS, "position"),
            registry=metrics.registry,
        )
        self._positions = [per_position.labels(metrics._model, "0", str(i)) for i in range(k)]

    def observe(self, proposed: int, accepted: int) -> None:
        """One draft, counted before a request's tail is cut."""
        self._drafts.inc()
        self._draft_tokens.inc(proposed)
        self._accepted.inc(accepted)
        for position in self._positions[:accepted]:
            position.inc()
