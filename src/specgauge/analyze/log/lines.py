"""vLLM's periodic statistics lines, read field by field in time order.

Fields are matched by their names, never by position, logger or ``file:line``: vLLM moves those
between versions.  A value that nothing was counted for is printed ``nan`` and becomes None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from specgauge.analyze.records import LogLine

_NUMBER = r"(nan|inf|[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?)"


@dataclass(frozen=True)
class SpecDecodingLine:
    """One ``SpecDecoding metrics`` line: what was drafted and accepted since the last one."""

    t: float
    acceptance_length: float | None
    accepted: int | None
    drafted: int | None
    per_position: tuple[float | None, ...]
    draft_acceptance_rate: float | None
    """0 to 1."""
    accepted_tok_s: float | None = None
    drafted_tok_s: float | None = None


@dataclass(frozen=True)
class EngineLine:
    """One ``Engine 000: Avg prompt throughput …`` line."""

    t: float
    prompt_tok_s: float | None
    generation_tok_s: float | None
    running: int | None
    waiting: int | None
    kv_cache_usage: float | None
    """0 to 1; the line may call the cache GPU, CPU or neither."""
    prefix_cache_hit_rate: float | None
    """vLLM's rolling figure, 0 to 1: never a cell's hit rate."""


@dataclass(frozen=True)
class JitLine:
    """The JIT monitor saw a kernel compiled while requests ran."""

    t: float
    backend: str
    kernel: str

    @property
    def name(self) -> str:
        """The kernel alone: a verbose monitor adds its signature, some hundreds of letters."""
        return self.kernel.split(" (", 1)[0]


def number(text: str | None) -> float | None:
    """``'1,024.5'`` as a float; None for nothing, ``nan`` and ``inf``."""
    if text is None:
        return None
    value = float(text.replace(",", ""))
    return value if math.isfinite(value) else None


def _field(text: str, name: str) -> float | None:
    found = re.search(rf"{name}:\s*{_NUMBER}", text, re.IGNORECASE)
    return number(found[1]) if found else None


def _share(text: str, name: str) -> float | None:
    found = re.search(rf"{name}:\s*{_NUMBER}\s*(%?)", text, re.IGNORECASE)
    value = number(found[1]) if found else None
    if found is None or value is None:
        return None
    return value / 100 if found[2] else value


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def spec_decoding(line: LogLine) -> SpecDecodingLine | None:
    """The line's speculation statistics, or None if it holds none."""
    text = line.text
    if "Mean acceptance length:" not in text:
        return None
    rates = re.search(
        rf"Per-position acceptance rate:\s*((?:{_NUMBER}(?:,\s+|$|\s))+)", text + " ", re.IGNORECASE
    )
    per_position: tuple[float | None, ...] = ()
    if rates:
        per_position = tuple(number(x) for x in re.findall(_NUMBER.replace(",", ""), rates[1]))
    return SpecDecodingLine(
        t=line.t,
        acceptance_length=_field(text, "Mean acceptance length"),
        accepted=_whole(_field(text, r"\bAccepted")),
        drafted=_whole(_field(text, r"\bDrafted")),
        per_position=per_position,
        draft_acceptance_rate=_share(text, "Draft acceptance rate"),
        accepted_tok_s=_field(text, "Accepted throughput"),
        drafted_tok_s=_field(text, "Drafted throughput"),
    )


def engine(line: LogLine) -> EngineLine | None:
    """The line's engine statistics, or None if it holds none."""
    text = line.text
    if "Avg generation throughput:" not in text:
        return None
    return EngineLine(
        t=line.t,
        prompt_tok_s=_field(text, "Avg prompt throughput"),
        generation_tok_s=_field(text, "Avg generation throughput"),
        running=_whole(_field(text, "Running")),
        waiting=_whole(_field(text, "Waiting")),
        kv_cache_usage=_share(text, "KV cache usage"),
        prefix_cache_hit_rate=_share(text, "Prefix cache hit rate"),
    )


_JIT = re.compile(
    r"(\w+) (?:kernel JIT|JIT) compilation during inference: (.+?)\. This causes a latency spike"
)


def jit(line: LogLine) -> JitLine | None:
    """The compile that the line reports, or None if it reports none."""
    if "compilation during inference:" not in line.text:
        return None  # the pattern is slow on a long line without it
    found = _JIT.search(line.text)
    return JitLine(line.t, found[1], found[2]) if found else None


def all_spec_decoding(log: Iterable[LogLine]) -> list[SpecDecodingLine]:
    """Every speculation statistics line of ``log``, in time order."""
    found = [parsed for line in log if (parsed := spec_decoding(line)) is not None]
    return sorted(found, key=lambda item: item.t)


def all_engine(log: Iterable[LogLine]) -> list[EngineLine]:
    """Every engine statistics line of ``log``, in time order."""
    found = [parsed for line in log if (parsed := engine(line)) is not None]
    return sorted(found, key=lambda item: item.t)


def all_jit(log: Iterable[LogLine]) -> list[JitLine]:
    """Every compile that ``log`` reports, in time order."""
    found = [parsed for line in log if (parsed := jit(line)) is not None]
    return sorted(found, key=lambda item: item.t)
