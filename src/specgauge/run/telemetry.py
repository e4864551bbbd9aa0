"""What watches the GPU of a start: NVML in the process way, the exporter in the Compose way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from specgauge.gpu.recorder import Recorder
from specgauge.run.machine import GPU_METRICS, gpu_of_stack
from specgauge.serve.on_gpu import OnGpu
from specgauge.serve.protocol import Server


def recorder_for(server: Server, out: Path, environ: Mapping[str, str]) -> Recorder | None:
    """The recorder of a start that is ready; None without a GPU."""
    if isinstance(server, OnGpu):
        uuid, spec = server.telemetry
        return Recorder(out, uuid, spec)
    gpu = gpu_of_stack(environ)
    return None if gpu is None else Recorder(out, gpu["uuid"], {"url": environ[GPU_METRICS]})
