"""The lines that vLLM writes while it starts, as far as a reader of its log needs them."""

from __future__ import annotations

from specgauge.simulate.arguments import Arguments
from specgauge.simulate.logs import Log, Process
from specgauge.simulate.truth import Truth

_ROUTES = {
    "/load": "GET",
    "/version": "GET",
    "/health": "GET",
    "/metrics": "GET",
    "/tokenize": "POST",
    "/detokenize": "POST",
    "/v1/models": "GET",
    "/ping": "GET",
    "/v1/completions": "POST",
}
_NGRAM = ("ngram", "ngram_gpu")


def before_loading(log: Log, truth: Truth, arguments: Arguments) -> None:
    """Banner, arguments and what the configuration forces."""
    source = "api_utils.py:347"
    log.line("", source)
    log.line("       █     █     █▄   ▄█", source)
    log.line(f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {truth.version}", source)
    log.line(f"  █▄█▀ █     █     █     █  model   {arguments.model}", source)
    log.line("   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀", source)
    log.line("", source)
    log.line(f"non-default args: {arguments.non_default()}", "api_utils.py:286")
    log.line("Resolved architecture: Qwen3ForCausalLM", "model.py:733")
    log.line(f"Using max model len {truth.max_model_len}", "model.py:2152")
    if truth.log.device == "GPU":
        log.line(
            f"Chunked prefill is enabled with max_num_batched_tokens={truth.max_batched_tokens}.",
            "scheduler.py:252",
        )
    _scheduling(log, arguments)
    _runner(log, truth, arguments, "APIServer")
    log.line(
        f"Initializing a V1 LLM engine (v{truth.version}) with config: model='{arguments.model}', "
        f"speculative_config={arguments.speculative_repr()}, tokenizer='{arguments.model}', "
        f"dtype=torch.bfloat16, max_seq_len={truth.max_model_len}, "
        f"enforce_eager={arguments.enforce_eager}, "
        f"enable_prefix_caching={truth.prefix_caching}",
        "core.py:133",
        "EngineCore",
    )
    _runner(log, truth, arguments, "EngineCore")
    log.line(f"Starting to load model {arguments.model}...", "model_runner.py:131", "Worker")


def _scheduling(log: Log, arguments: Arguments) -> None:
    if arguments.method in _NGRAM:
        log.warning_line(
            "Async scheduling not supported with ngram-based speculative decoding and will be "
            "disabled.",
            "vllm.py:1077",
        )
        log.line("Asynchronous scheduling is disabled.", "vllm.py:1109")
    else:
        state = "enabled" if arguments.async_scheduling else "disabled"
        log.line(f"Asynchronous scheduling is {state}.", "vllm.py:1109")


def _runner(log: Log, truth: Truth, arguments: Arguments, process: Process) -> None:
    if truth.log.device == "CPU":
        text = "Model Runner V2 requires Triton; using the V1 model runner instead."
    elif arguments.method in _NGRAM:
        text = (
            "Model Runner V2 does not yet support ngram/ngram_gpu speculative decoding; using the "
            "V1 model runner instead."
        )
    else:
        if process == "EngineCore" and not arguments.v1_runner:
            log.line("Using V2 Model Runner", "gpu_worker.py:378", process)
        return
    log.warning_line(text, "vllm.py:725", process)


def after_loading(log: Log, truth: Truth, arguments: Arguments, took_s: float, port: int) -> None:
    """Cache size, JIT monitor, routes: everything up to the HTTP server's own lines."""
    tokens, length = truth.kv_cache_tokens, truth.max_model_len
    size = f"{truth.log.device} KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {length:,} tokens per request: {tokens / length:.2f}x"
    for text in [f"{size}, {most}"] if truth.log.wording == "0.32" else [size, most]:
        log.line(text, "kv_cache_utils.py:2327", "EngineCore")
    if truth.log.jit_monitor and truth.log.device == "GPU" and not arguments.enforce_eager:
        log.line(
            "Kernel JIT monitor activated; monitored JIT compilations during inference will use "
            "mode=warn.",
            "jit_monitor.py:79",
            "EngineCore",
        )
    log.line(
        f"init engine (profile, create kv cache, warmup model) took {took_s:.2f} s",
        "core.py:402",
        "EngineCore",
    )
    log.line("Supported tasks: ['generate']", "entry.py:136")
    if arguments.dev_mode:
        log.warning_line(
            "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in "
            "production!",
            "__init__.py:44",
        )
    log.line(f"Starting vLLM server on http://{arguments.host}:{port}", "entry.py:140")
    if truth.log.routes:
        log.line("Available routes are:", "launcher.py:186")
        for path, method in _ROUTES.items():
            log.line(f"Route: {path}, Methods: {method}", "launcher.py:195")
        if arguments.dev_mode:
            log.line("Route: /reset_prefix_cache, Methods: POST", "launcher.py:195")


def stopping(log: Log) -> None:
    """The server was told to end."""
    log.line("[shutdown] API server: shutdown triggered", "launcher.py:254")
    log.line(
        "[shutdown] API server: stopping engine client mode=abort timeout=0s", "launcher.py:270"
    )
    log.line("[shutdown] EngineCore: trigger received signal=SIGTERM", "core.py:1454", "EngineCore")
    log.line("[shutdown] EngineCore: exiting busy loop", "core.py:1499", "EngineCore")
    log.line("[shutdown] MPClient: complete", "core_client.py:777")
    log.line("[shutdown] API server: shutting down FastAPI HTTP server", "launcher.py:304")
