"""Two looks at the metrics → the live figures of each variant.  Pure.

The definitions are the dashboard's (``stack/dashboard.py``): over what happened between the two
looks.  None: nothing of the kind happened, or the server does not tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

Sample = tuple[str, str, float]
"""Name, labels as a JSON object, value: as ``scrape.parse.samples`` gives them."""
_More = Callable[[str], float | None]


@dataclass(frozen=True)
class Gpu:
    """One card, from the GPU exporter."""

    bus_id: str
    power_w: float | None = None
    clock_mhz: float | None = None
    used_gib: float | None = None
    total_gib: float | None = None
    others: int | None = None
    """Processes on it that are not this stack's; None: not told."""


@dataclass(frozen=True)
class Look:
    """One scrape: values by variant, metric and the labels that matter."""

    t: float
    """Seconds, any monotonic clock."""
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    """variant → ``metric`` or ``metric/position`` → sum over the other labels."""
    cells: dict[str, str] = field(default_factory=dict)
    """variant → the cell that runs now, for people."""
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class Figures:
    """The live figures of one variant; times in seconds, shares 0 to 1."""

    output_tok_s: float | None
    ttft_s: float | None
    tpot_s: float | None
    step_s: float | None
    running: float | None
    waiting: float | None
    kv_use: float | None
    prefix_hits: float | None
    acceptance_length: float | None
    tokens_per_step: float | None
    draft_coverage: float | None
    acceptance_by_position: tuple[float, ...]
    jit_events: float | None


def look(t: float, samples: Iterable[Sample], variant: str | None = None) -> Look:
    """Sort ``samples`` by variant; a series without a label ``variant`` is ``variant``'s."""
    values: dict[str, dict[str, float]] = {}
    cells: dict[str, str] = {}
    cards: dict[str, dict[str, float]] = {}
    for name, text, value in samples:
        if not name.startswith(("vllm:", "specgauge_")):
            continue
        labels: dict[str, str] = json.loads(text)
        if name.startswith("specgauge_gpu_"):
            card = cards.setdefault(labels.get("pci_bus_id", "?"), {})
            key = name.removeprefix("specgauge_gpu_")
            card[f"{key}/{labels['owner']}" if "owner" in labels else key] = value
            continue
        whose = labels.get("variant", variant)
        if whose is None:
            continue
        if name == "specgauge_cell_info":
            if value:
                cells[whose] = f"{labels['load']} repeat {labels['repeat']}"
            continue
        key = f"{name}/{labels['position']}" if "position" in labels else name
        mine = values.setdefault(whose, {})
        mine[key] = mine.get(key, 0.0) + value
    gpus = tuple(_gpu(bus_id, card) for bus_id, card in sorted(cards.items()))
    return Look(t, values, cells, gpus)


def figures(before: Look, now: Look, variant: str) -> Figures | None:
    """The figures of ``variant`` between two looks; None if it is not in both, or restarted."""
    old, new = before.values.get(variant), now.values.get(variant)
    seconds = now.t - before.t
    if old is None or new is None or seconds <= 0:
        return None

    def more(metric: str) -> float | None:
        name = f"vllm:{metric}"
        if name not in new:
            return None
        return new[name] - old.get(name, 0.0)

    def gauge(metric: str) -> float | None:
        return new.get(f"vllm:{metric}")

    tokens = more("generation_tokens_total")
    if tokens is None or tokens < 0:  # a counter that fell: another server process
        return None
    steps = more("inter_token_latency_seconds_count")
    drafts = more("spec_decode_num_drafts_total")
    firsts = more("time_to_first_token_seconds_count") or 0.0
    accepted = _ratio(more("spec_decode_num_accepted_tokens_total"), drafts)
    return Figures(
        output_tok_s=tokens / seconds,
        ttft_s=_mean(more, "time_to_first_token_seconds"),
        tpot_s=_mean(more, "request_time_per_output_token_seconds"),
        step_s=_mean(more, "inter_token_latency_seconds"),
        running=gauge("num_requests_running"),
        waiting=gauge("num_requests_waiting"),
        kv_use=gauge("kv_cache_usage_perc"),
        prefix_hits=_ratio(more("prefix_cache_hits_total"), more("prefix_cache_queries_total")),
        acceptance_length=None if accepted is None else 1 + accepted,
        tokens_per_step=_ratio(tokens - firsts, steps),
        draft_coverage=_ratio(drafts, steps),
        acceptance_by_position=_by_position(old, new, drafts),
        jit_events=new.get("specgauge_jit_events_total"),
    )


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def _mean(more: _More, metric: str) -> float | None:
    return _ratio(more(f"{metric}_sum"), more(f"{metric}_count"))


def _by_position(
    old: dict[str, float], new: dict[str, float], drafts: float | None
) -> tuple[float, ...]:
    if not drafts:
        return ()
    stem = "vllm:spec_decode_num_accepted_tokens_per_pos_total/"
    found = {int(k.removeprefix(stem)): v - old.get(k, 0) for k, v in new.items() if stem in k}
    return tuple(found[position] / drafts for position in sorted(found))


def _gpu(bus_id: str, card: dict[str, float]) -> Gpu:
    def scaled(name: str, unit: float) -> float | None:
        return card[name] / unit if name in card else None

    owners = [card[k] for k in ("processes/other", "processes/unknown") if k in card]
    return Gpu(
        bus_id,
        power_w=card.get("power_watts"),
        clock_mhz=scaled("sm_clock_hertz", 1e6),
        used_gib=scaled("memory_used_bytes", 2**30),
        total_gib=scaled("memory_total_bytes", 2**30),
        others=int(sum(owners)) if owners else None,
    )
