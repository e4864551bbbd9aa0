"""What watches the GPU of a start: NVML in the process way, the exporter in the Compose way."""

from __future__ import annotations

from collections.abc import Mapping

from specgauge.gpu.exported import url_of
from specgauge.gpu.recorder import Recorder
from specgauge.record.layout import RunPaths, StartPaths
from specgauge.record.manifest import read_manifest
from specgauge.serve.on_gpu import OnGpu
from specgauge.serve.protocol import Server


def recorder_for(
    server: Server, run: RunPaths, start: StartPaths, environ: Mapping[str, str]
) -> Recorder | None:
    """The recorder of a start that is ready; None without a GPU."""
    if isinstance(server, OnGpu):
        uuid, spec = server.telemetry
        return Recorder(start.telemetry, uuid, spec)
    manifest = read_manifest(run.manifest)
    if manifest.runtime != "compose" or manifest.gpu is None:
        return None
    # (No UUID: the exporter did not answer when the run began; it tells of the pinned card alone.)
    return Recorder(start.telemetry, manifest.gpu["uuid"] or "", {"url": url_of(environ)})
