"""``python -m specgauge.gpu.telemetry OUT UUID [SPEC]``: watch a GPU until stdin ends, write OUT.

``SPEC`` is JSON: ``{"root": PID, "id": START}`` for NVML and the server's process tree,
``{"blind": true}`` where the driver's process numbers are not this system's, ``{"url": URL}`` for
the stack's exporter.  Like the scraper it is a process of its own: it ends, and writes, also when
its parent dies.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from specgauge.errors import SpecgaugeError
from specgauge.gpu.device import NvmlFault, NvmlUnavailable
from specgauge.gpu.find import by_uuid
from specgauge.gpu.nvml import open_nvml
from specgauge.gpu.owners import nobody, of_server
from specgauge.gpu.sampler import Sampler
from specgauge.gpu.source import ExporterSource, NvmlSource, Source


def main(arguments: list[str]) -> int:
    """Sample and write; 5 if the GPU is not there or the file cannot be written."""
    out, uuid, *more = arguments
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=_wait_for_end_of_stdin, args=(stop,), daemon=True).start()
    try:
        source = source_of(uuid, json.loads(more[0]) if more else {"blind": True})
    except (NvmlUnavailable, NvmlFault, SpecgaugeError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # the recorder shows the last line
        return 5
    sampler = Sampler(source)
    sampler.run(stop)
    # Imported now: Arrow's start must not take time from what is measured.
    from specgauge.gpu.telemetry_file import write

    try:
        write(Path(out), sampler.rows)
    except SpecgaugeError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


def source_of(uuid: str, spec: dict[str, Any]) -> Source:
    """The source that ``spec`` describes.

    Raises:
        NvmlUnavailable, NvmlFault, UsageError: the card cannot be asked.
    """
    if "url" in spec:
        return ExporterSource(spec["url"], uuid)
    nvml = open_nvml()
    judge = nobody if spec.get("blind") else of_server(spec["root"], spec["id"])
    return NvmlSource(nvml, by_uuid(nvml, uuid), judge)


def _wait_for_end_of_stdin(stop: threading.Event) -> None:
    sys.stdin.buffer.read()
    stop.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
