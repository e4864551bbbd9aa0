"""The command line: what ``vllm serve`` gets, and where the planted truth is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specgauge.errors import UsageError

_SWITCHES = {
    "enforce-eager",
    "trust-remote-code",
    "enable-prefix-caching",
    "no-enable-prefix-caching",
    "enable-prompt-tokens-details",
    "disable-log-requests",
    "no-enable-log-requests",
    "disable-uvicorn-access-log",
    "jit-monitor-verbose",
    "async-scheduling",
    "no-async-scheduling",
}
"""Flags without a value that may stand before the model."""


@dataclass(frozen=True)
class Arguments:
    """What the server was started with.

    ``method`` is ``vanilla`` without a speculative config, ``k`` then 0.
    """

    model: str = "model"
    host: str = "127.0.0.1"
    port: int = 8000
    served_model_name: str = "model"
    method: str = "vanilla"
    k: int = 0
    speculative_config: dict[str, Any] | None = None
    max_num_seqs: int | None = None
    enforce_eager: bool = False
    jit_verbose: bool = False
    prompt_details: bool = False
    access_log: bool = True
    prefix_caching: bool = True
    dev_mode: bool = False
    v1_runner: bool = False
    async_scheduling: bool = True
    truth: str = "{}"
    truth_out: Path | None = None
    flags: dict[str, str | None] = field(default_factory=dict)
    """Every flag as given, without its dashes."""

    @property
    def section(self) -> str:
        """The section of the truth's ``variants`` that holds for this process."""
        if self.k:
            return f"{self.method}:{self.k}"
        return "vanilla:v1" if self.v1_runner else "vanilla"

    def non_default(self) -> dict[str, Any]:
        """As in vLLM's "non-default args" line."""
        shown: dict[str, Any] = {"model_tag": self.model}
        for name, value in self.flags.items():
            key = name.replace("-", "_")
            number = int(value) if value and value.isdigit() else value or True
            shown[key] = self.speculative_config if key == "speculative_config" else number
        return shown

    def speculative_repr(self) -> str:
        """As in vLLM's engine line."""
        if self.speculative_config is None:
            return "None"
        model = self.speculative_config.get("model")
        return (
            f"SpeculativeConfig(method={self.method!r}, model={model!r}, num_spec_tokens={self.k})"
        )


def parse(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> Arguments:
    """Read a ``vllm serve`` command line; flags that the simulator has no use for are kept only
    for the log.

    Raises:
        UsageError: a value that cannot be used.
    """
    positional, flags = _split(argv)
    model = positional[0] if positional else flags.get("model") or "model"
    speculative = _speculative(flags.get("speculative-config"))
    truth_out = flags.pop("truth-out", None) or environment.get("SPECGAUGE_SIM_TRUTH_OUT")
    truth = flags.pop("truth", None) or environment.get("SPECGAUGE_SIM_TRUTH") or "{}"
    return Arguments(
        model=model,
        host=flags.get("host") or "127.0.0.1",
        port=_number(flags, "port", 8000) or 0,
        served_model_name=flags.get("served-model-name") or model,
        method=str(speculative.get("method") or "draft_model") if speculative else "vanilla",
        k=int(speculative.get("num_speculative_tokens") or 1) if speculative else 0,
        speculative_config=speculative,
        max_num_seqs=_number(flags, "max-num-seqs", None),
        enforce_eager="enforce-eager" in flags,
        jit_verbose="jit-monitor-verbose" in flags,
        prompt_details="enable-prompt-tokens-details" in flags,
        access_log="disable-uvicorn-access-log" not in flags,
        prefix_caching="no-enable-prefix-caching" not in flags,
        dev_mode=environment.get("VLLM_SERVER_DEV_MODE") == "1",
        v1_runner=environment.get("VLLM_USE_V2_MODEL_RUNNER") == "0",
        async_scheduling="no-async-scheduling" not in flags,
        truth=truth,
        truth_out=Path(truth_out) if truth_out else None,
        flags=flags,
    )


def _split(argv: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
    positional: list[str] = []
    flags: dict[str, str | None] = {}
    rest = list(argv)
    if rest and rest[0] == "serve":
        rest.pop(0)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            positional.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        takes = bool(rest) and not rest[0].startswith("-") and name not in _SWITCHES
        flags[name] = value if equals else (rest.pop(0) if takes else None)
    return positional, flags


def _speculative(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--speculative-config: not valid JSON: {error.msg}: {text}") from error
    if not isinstance(value, dict):
        raise UsageError(f"--speculative-config: expected a JSON object, found {text}")
    return value


def _number(flags: Mapping[str, str | None], name: str, default: int | None) -> int | None:
    text = flags.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--{name}: expected a whole number, found {text!r}") from None
