"""Why a server died: from the last lines of its log to one sentence and a remedy.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from specgauge.config.resolve import Resolved

Kind = Literal[
    "graph_capture", "unknown_flag", "bad_value", "out_of_memory", "occupied", "kv_cache",
    "too_long", "architecture", "access", "no_model", "no_hub", "compiler", "port", "python",
    "speculative_config", "no_gpu", "shared_memory", "engine",
]  # fmt: skip

LINES = 400
"""Lines from the log's end that are looked at: two tracebacks follow the cause."""


@dataclass(frozen=True)
class Diagnosis:
    """What the log says."""

    kind: Kind
    sentence: str
    remedy: str

    def words(self) -> str:
        """For people."""
        return f"{self.sentence} {self.remedy}"


@dataclass(frozen=True)
class _Rule:
    kind: Kind
    pattern: re.Pattern[str]
    sentence: Callable[[re.Match[str]], str]
    remedy: str


def _rule(
    kind: Kind, pattern: str, sentence: str | Callable[[re.Match[str]], str], remedy: str
) -> _Rule:
    said = sentence if callable(sentence) else lambda match, text=sentence: text
    return _Rule(kind, re.compile(pattern), said, remedy)


EAGER = (
    "Give 'enforce-eager: true' to *all* variants ('server: args:' in the experiment), or the "
    "comparison is between unlike servers; 'on_graph_failure: eager_for_all' does so by itself."
)
_SIZES = (
    "Lower gpu-memory-utilization or max-model-len in the model's server_args (the same for all "
    "variants), or take a larger GPU."
)

_RULES = (
    _rule(
        "unknown_flag",
        r"error: unrecognized arguments: (.+)",
        lambda m: f"This vLLM does not know {', '.join(_flags(m[1]))}: removed, or misspelt.",
        "Remove it, or give it its new name.",
    ),
    _rule(
        "bad_value",
        r"error: argument (--[\w-]+)[^:]*: (.+)",
        lambda m: f"vLLM refuses the value of {m[1]}: {m[2]}",
        "Correct it where it is set.",
    ),
    _rule(
        "python",
        r"TypeError: (?:'type' object|type 'array\.array') is not subscriptable",
        "A package needs a newer Python than the server's (array.array[int] needs 3.12).",
        "Make the server's environment with Python 3.12 or newer.",
    ),
    _rule(
        "architecture",
        r"no kernel image is available for execution on the device",
        "A package has no kernels for this GPU's architecture.",
        "Install builds for it (uv pip install vllm --torch-backend=auto, or a nightly build); "
        "'specgauge preflight' says which package.",
    ),
    _rule(
        "compiler",
        r"Failed to find C compiler|No such file or directory: '(?:ninja|nvcc|gcc|g\+\+)'"
        r"|[Nn]inja is required|Could not find nvcc|CUDA_HOME environment variable is not set"
        r"|fatal error: Python\.h",
        lambda m: f"Kernels could not be built: {m[0]}.",
        "Install gcc, g++, ninja, Python's headers and the CUDA toolkit; 'specgauge preflight' "
        "says which is missing.",
    ),
    _rule(
        "access",
        r"Cannot access gated repo|GatedRepoError|[Yy]ou are trying to access a gated repo"
        r"|Access to model \S+ is restricted|401 Client Error|403 Client Error",
        "The hub does not give this model to whoever is logged in here.",
        "Ask for access on the model's page, then 'hf auth login' (or HF_TOKEN).",
    ),
    _rule(
        "no_model",
        r"Cannot find an appropriate cached snapshot folder.*outgoing traffic has been disabled"
        r"|Cannot reach \S+: offline mode is enabled",
        "The model is not on this machine, and asking the hub is forbidden (HF_HUB_OFFLINE).",
        "Fetch it first: 'specgauge preflight --fetch' without HF_HUB_OFFLINE.",
    ),
    _rule(
        "no_model",
        r"Invalid repository ID or local directory specified: '([^']+)'",
        lambda m: (
            f"There is no model {m[1]!r}: no such folder, and no such name in the hub's "
            "cache or on the hub."
        ),
        "Correct 'path:' or 'drafters:' in the model's file, or fetch it.",
    ),
    _rule(
        "no_model",
        r"Cannot find any model weights with [`'\"]([^`'\"\n]+)",
        lambda m: f"There are no weights in {m[1]}.",
        "Fetch them. For a folder that holds a configuration alone: 'load-format: dummy' in the "
        "model's server_args.",
    ),
    _rule(
        "occupied",
        r"Free memory on device \S* ?\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired GPU "
        r"memory utilization \(([\d.]+), ([\d.]+) GiB\)",
        lambda m: (
            f"The GPU was not free: {m[1]} of {m[2]} GiB, and gpu-memory-utilization {m[3]} "
            f"wants {m[4]} GiB."
        ),
        "Wait until whoever is on it has gone ('specgauge preflight' names them), or lower "
        "gpu-memory-utilization for all variants.",
    ),
    _rule(
        "kv_cache",
        r"max seq len \((\d+)\).*?([\d.]+) GiB KV cache is needed, which is larger than the "
        r"available KV cache memory \((-?[\d.]+) GiB\)"
        r"(?:.*estimated maximum model length is (\d+))?",
        lambda m: (
            f"The KV cache is too small for one request of max-model-len {m[1]}: {m[2]} GiB "
            f"needed, {m[3]} GiB left" + (f"; {m[4]} tokens would fit." if m[4] else ".")
        ),
        "Lower max-model-len, or raise gpu-memory-utilization (on a CPU: VLLM_CPU_KVCACHE_SPACE), "
        "for all variants.",
    ),
    _rule(
        "kv_cache",
        r"No available memory for the cache blocks",
        "The weights leave no memory for a KV cache.",
        "Raise gpu-memory-utilization for all variants, or take a larger GPU.",
    ),
    _rule(
        "too_long",
        r"max_model_len \((\d+)\) is greater than the derived max_model_len \(\w+=([\d.]+)",
        lambda m: f"max-model-len {m[1]} is more than the model's own {float(m[2]):.0f}.",
        "Lower max-model-len in the model's server_args.",
    ),
    _rule(
        "graph_capture",
        r"operation (?:not permitted when stream is capturing"
        r"|failed due to a previous error during capture)"
        r"|CUDA error: .*(?:capture|capturing)|cudaErrorStreamCapture\w+"
        r"|(?:Error|Exception|OutOfMemoryError).*(?i:cuda ?graph)"
        r"|File \".*\", line \d+, in (?:capture_model|_capture_cudagraphs|capture_end|"
        r"capture_graphs?)\b",
        "Capturing CUDA graphs failed.",
        EAGER,
    ),
    _rule(
        "out_of_memory",
        r"(?:torch\.)?(?:cuda\.)?OutOfMemoryError|CUDA out of memory|CUDA error: out of memory",
        "The GPU's memory was not enough while the model was loaded or tried out.",
        _SIZES,
    ),
    _rule(
        "port",
        r"\[Errno (?:98|48)\].*[Aa]ddress already in use|error while attempting to bind on address",
        "Its port is taken.",
        "Set another one: 'server: port:' in the experiment, or --port.",
    ),
    _rule(
        "speculative_config",
        r"validation errors? for SpeculativeConfig",
        "vLLM refuses the speculative config.",
        "Correct 'speculative_config:' in the variant's file.",
    ),
    _rule(
        "no_gpu",
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver"
        r"|The NVIDIA driver on your system is too old",
        lambda m: f"No GPU can be used: {m[0]}.",
        "'specgauge preflight' looks at driver, GPU and torch.",
    ),
    _rule(
        "shared_memory",
        r"No space left on device.*?/dev/shm|/dev/shm.*No space left|Bus error",
        "Shared memory (/dev/shm) is too small.",
        "In a container: --shm-size 2g ('shm_size:' in compose.yaml).",
    ),
    _rule(
        "no_hub",
        r"Retrying in \d+s \[Retry \d+/\d+\]|Max retries exceeded with url"
        r"|Temporary failure in name resolution|We couldn't connect to '?https?://",
        "The hub cannot be reached.",
        "Is there a way to the internet (HTTPS_PROXY)? Else copy the model into the hub's cache.",
    ),
)

_ENGINE_ERROR = re.compile(
    r"^\((?:EngineCore|Worker)[^)]*\) ERROR [^\]]*\] (?:\w+\.)*(\w*(?:Error|Exception): .+)$",
    re.MULTILINE,
)
"""The end of a traceback in a process of the engine.  The first is what vLLM calls the root cause
above; those after it come of it."""
_SENTENCE = 300


def diagnose(lines: Sequence[str]) -> Diagnosis | None:
    """What ``lines`` (of a server that has ended, oldest first) say; None if nothing known.

    The rules are in the order of what causes what: running out of memory while graphs are
    captured is a failure of the capture, a missing kernel in a capture is one of the build.
    """
    text = "\n".join(lines[-LINES:])
    for rule in _RULES:
        if (match := rule.pattern.search(text)) is not None:
            return _told(rule, match, text)
    if (match := _ENGINE_ERROR.search(text)) is not None:
        return Diagnosis(
            "engine",
            f"The engine ended with {match[1].strip()[:_SENTENCE]}.",
            "Its traceback is in server.log.",
        )
    return None


def _told(rule: _Rule, match: re.Match[str], text: str) -> Diagnosis:
    sentence = rule.sentence(match)
    if rule.kind == "speculative_config":
        detail = text[match.end() :].strip().splitlines()
        said = " ".join(line.strip() for line in detail[:2]).partition("[type=")[0].strip()
        sentence = f"vLLM refuses the speculative config: {said[:_SENTENCE]}."
    return Diagnosis(rule.kind, sentence, rule.remedy)


def where_set(flag: str, resolved: Resolved) -> str:
    """Which file gives vLLM ``flag``, for people."""
    name = flag.lstrip("-").partition("=")[0].replace("_", "-")
    names = {name, name.removeprefix("no-")}
    places = [
        (resolved.model.server_args, f"'server_args:' of model {resolved.model.name!r}"),
        (resolved.experiment.server.args, f"'server: args:' in {resolved.path}"),
    ]
    places += [
        (variant.server_args, f"'server_args:' of variant {variant.name!r}")
        for variant in resolved.variants.values()
    ]
    found = [where for args, where in places if names & {key.replace("_", "-") for key in args}]
    if found:
        return f"{flag} is set in {', '.join(found)}"
    if any(
        word.lstrip("-").partition("=")[0] == name for word in resolved.experiment.server.command
    ):
        return f"{flag} is in 'server: command:' in {resolved.path}"
    return f"{flag} is passed by specgauge itself"


def flags_in(diagnosis: Diagnosis) -> list[str]:
    """The flags that a diagnosis names."""
    return re.findall(r"--[\w-]+", diagnosis.sentence)


def _flags(text: str) -> list[str]:
    return [word for word in text.split() if word.startswith("-")] or [text.strip()]
