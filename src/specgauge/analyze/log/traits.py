"""Engine traits that a server's log states: what the method may have changed beside the draft."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from specgauge.analyze.records import LogLine


@dataclass(frozen=True)
class EngineTraits:
    """What the log says of the engine; None where it says nothing."""

    vllm_version: str | None = None
    runner: str | None = None
    """``V1`` or ``V2`` model runner."""
    runner_reason: str | None = None
    """Why V2 was left, in the log's words."""
    async_scheduling: bool | None = None
    async_reason: str | None = None
    """Why asynchronous scheduling was turned off, in the log's words."""
    kv_cache_tokens: int | None = None
    batched_tokens: int | None = None
    """Most tokens that a step computes (``max_num_batched_tokens``)."""
    jit_monitor: bool = False
    """The log proves that something watches for compiles."""
    attention_backend: str | None = None
    enforce_eager: bool = False
    graph_tokens: int | None = None
    """Tokens of the widest CUDA graph to capture, as configured; None without graphs (a CPU,
    ``enforce_eager``).  The V1 runner rounds sizes to multiples of 1 + K: of 512 at K = 6, 497."""
    graph_mode: str | None = None
    """``FULL_AND_PIECEWISE``, ``PIECEWISE``, …; None without graphs."""
    graphs_off: bool = False
    """The log says that there are none; else None above may be silence."""

    @property
    def tokens_ahead(self) -> float:
        """Most prompt tokens that are computed before a step's outputs are given out.

        With asynchronous scheduling the next step is launched before this one's outputs are read,
        and on an H200 they were seen to come only at its end.
        """
        if not self.async_scheduling:
            return 0.0
        return float("inf") if self.batched_tokens is None else float(self.batched_tokens)


_VERSION = re.compile(r"\bversion (\d+\.\d+\S*)|LLM engine \(v(\d+\.\d+[^)]*)\)")
_RUNNER_LEFT = re.compile(r"Model Runner V2 (.+?); using the V1 model runner")
_RUNNER_USED = re.compile(r"Using V(\d) Model Runner", re.IGNORECASE)
_ASYNC_STATE = re.compile(r"Asynchronous scheduling is (enabled|disabled)", re.IGNORECASE)
_ASYNC_LEFT = re.compile(r"Async scheduling (not supported with .+?) and will be disabled")
_KV_CACHE = re.compile(r"KV cache size: (\d[\d,]*) tokens")
_BATCHED = re.compile(r"max_num_batched_tokens=(\d+)")
_ATTENTION = re.compile(r"Using (\S+) (?:attention )?backend(?: out of potential backends|\.)")
_COMPILATION = "compilation_config="
"""In the engine's line with its whole configuration, after all defaults were derived."""
_FOR_CPU = "device_config=cpu"
_GRAPH_SIZES = re.compile(r"(?<!\w)cudagraph_capture_sizes['\"]: ?\[(\d[\d, ]*)\]")
_GRAPH_MODE = re.compile(r"(?<!\w)cudagraph_mode['\"]: ?<CUDAGraphMode\.(\w+)")
_GRAPH_MODE_LEFT = re.compile(r"setting cudagraph_mode=(\w+)")
"""Later, by a worker whose attention backend cannot be captured whole."""
_NO_GRAPHS = "NONE"
_ON_CPU = "CPU KV cache size"
"""vLLM for CPUs turns asynchronous scheduling off for every server and says nothing of it
(``platforms/cpu.py``, 0.32); only ngram's own warning, written earlier, names it."""
_MONITOR = "JIT monitor activated"


def read(log: Iterable[LogLine]) -> EngineTraits:
    """Traits stated in ``log``.  Where several lines speak of one, the first that does decides."""
    first: dict[str, str] = {}

    def keep(key: str, value: str | None) -> None:
        if value is not None:
            first.setdefault(key, value)

    monitor = eager = False
    graphs: dict[str, str] = {}
    for line in log:
        text = line.text
        if found := _VERSION.search(text):
            keep("version", found[1] or found[2])
        if found := _RUNNER_LEFT.search(text):
            keep("runner", "V1")
            keep("runner_reason", found[1])
        elif found := _RUNNER_USED.search(text):
            keep("runner", f"V{found[1]}")
        if found := _ASYNC_LEFT.search(text):
            keep("async", "disabled")
            keep("async_reason", found[1])
        elif found := _ASYNC_STATE.search(text):
            keep("async", found[1].lower())
        if _ON_CPU in text:
            keep("async", "disabled")
        if found := _KV_CACHE.search(text):
            keep("kv", found[1].replace(",", ""))
        if found := _BATCHED.search(text):
            keep("batched", found[1])
        if found := _ATTENTION.search(text):
            keep("attention", found[1])
        graphs.update(_graphs(text))
        monitor = monitor or _MONITOR in text
        eager = eager or "Enforce eager set" in text
    graphs_off = graphs.get("mode") == _NO_GRAPHS
    if graphs_off:
        graphs = {}
    return EngineTraits(
        vllm_version=first.get("version"),
        runner=first.get("runner"),
        runner_reason=first.get("runner_reason"),
        async_scheduling=first["async"] == "enabled" if "async" in first else None,
        async_reason=first.get("async_reason"),
        kv_cache_tokens=int(first["kv"]) if "kv" in first else None,
        batched_tokens=int(first["batched"]) if "batched" in first else None,
        jit_monitor=monitor,
        attention_backend=first.get("attention"),
        enforce_eager=eager,
        graph_tokens=int(graphs["tokens"]) if "tokens" in graphs else None,
        graph_mode=graphs.get("mode"),
        graphs_off=graphs_off,
    )


def _graphs(text: str) -> dict[str, str]:
    """``tokens`` and ``mode`` of the CUDA graphs, as far as a line says them."""
    found: dict[str, str] = {}
    if _COMPILATION in text and _FOR_CPU not in text:
        if sizes := _GRAPH_SIZES.search(text):
            found["tokens"] = str(max(int(size) for size in re.findall(r"\d+", sizes[1])))
        if mode := _GRAPH_MODE.search(text):
            found["mode"] = mode[1]
    elif left := _GRAPH_MODE_LEFT.search(text):
        found["mode"] = left[1]
    return found
