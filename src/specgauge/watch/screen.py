"""Live figures → what the terminal shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specgauge.watch.figures import Figures, Gpu

_BARS = " ▁▂▃▄▅▆▇█"
HISTORY = 60
"""Looks that the throughput's small graph holds."""


def spark(values: deque[float]) -> str:
    """A graph of one line: each value as a bar, relative to the largest."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(_BARS[round(value / top * (len(_BARS) - 1))] for value in values)


def screen(
    source: str,
    now: Mapping[str, Figures | None],
    cells: Mapping[str, str],
    history: Mapping[str, deque[float]],
    gpus: tuple[Gpu, ...],
) -> RenderableType:
    """One column a variant, one row a figure; below it the throughput's history and the GPUs."""
    if not now:
        return Text(f"waiting for a server: {source}", style="dim")
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for variant in now:
        table.add_column(variant, justify="right")
    for title, one in _ROWS:
        table.add_row(title, *(one(f) if f is not None else "-" for f in now.values()))
    table.add_row("cell", *(cells.get(variant, "-") for variant in now))
    parts: list[RenderableType] = [table]
    for variant in now:
        if line := spark(history.get(variant, deque())):
            parts.append(Text(f"{variant} tok/s  {line}"))
    parts += [Text(_gpu_line(gpu), style="red" if gpu.others else "") for gpu in gpus]
    parts.append(Text(f"{source}; live, over the last seconds. Ctrl-C ends the view.", "dim"))
    return Group(*parts)


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value * 1000:.1f} ms"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


_ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("output tok/s", lambda f: _number(f.output_tok_s)),
    ("TTFT", lambda f: _ms(f.ttft_s)),
    ("TPOT", lambda f: _ms(f.tpot_s)),
    ("step latency", lambda f: _ms(f.step_s)),
    ("running", lambda f: _number(f.running, 0)),
    ("waiting", lambda f: _number(f.waiting, 0)),
    ("KV-cache use", lambda f: _percent(f.kv_use)),
    ("prefix-cache hits", lambda f: _percent(f.prefix_hits)),
    ("acceptance length", lambda f: _number(f.acceptance_length, 2)),
    ("tokens per step", lambda f: _number(f.tokens_per_step, 2)),
    ("draft coverage", lambda f: _percent(f.draft_coverage)),
    (
        "accepted by position",
        lambda f: " ".join(_percent(p) for p in f.acceptance_by_position) or "-",
    ),
    ("JIT events", lambda f: _number(f.jit_events, 0)),
)


def _gpu_line(gpu: Gpu) -> str:
    memory = f"{_number(gpu.used_gib)} of {_number(gpu.total_gib)} GiB"
    line = (
        f"GPU {gpu.bus_id}  {_number(gpu.power_w, 0)} W  {_number(gpu.clock_mhz, 0)} MHz  {memory}"
    )
    return f"{line}  OTHERS ON IT: {gpu.others}" if gpu.others else line
