"""A cell's figures from the GPU's telemetry."""

from __future__ import annotations

import numpy as np

from specgauge.analyze.context import CellContext
from specgauge.analyze.machine_document import GpuFigures
from specgauge.gpu import throttle


def observe(cell: CellContext) -> GpuFigures | None:
    """Energy, clocks and temperature from the first send to the last chunk; None untold."""
    telemetry, span = cell.start.telemetry, cell.span
    if telemetry.empty or span is None:
        return None
    energy = telemetry.energy(span.t0, span.t1)

    def over(column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return telemetry.values(column, span.t0, span.t1)

    def mean(column: str) -> float | None:
        return float(found.mean()) if (found := over(column)).size else None

    def highest(column: str) -> float | None:
        return float(found.max()) if (found := over(column)).size else None

    return GpuFigures(
        energy_j=energy.joules if energy else None,
        energy_from=energy.source if energy else None,
        power_w=energy.joules / span.seconds if energy and span.seconds else None,
        sm_clock_mhz=mean("sm_clock_mhz"),
        temperature_c=highest("temperature_c"),
        utilisation=mean("utilisation"),
        memory_used=highest("memory_used"),
        throttle={
            throttle.words(bit)[0]: share
            for bit, share in telemetry.throttled(span.t0, span.t1).items()
        },
    )


def joules_per_token(gpu: GpuFigures | None, output_tokens: int) -> float | None:
    """Energy / output tokens; None without either."""
    if gpu is None or gpu.energy_j is None or not output_tokens:
        return None
    return gpu.energy_j / output_tokens
