"""``python -m specgauge.scrape URL OUT [PID]``: scrape until stdin ends or TERM, write ``OUT``.

``PID``: the server's, to see how long it waits for a CPU.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from specgauge.errors import SpecgaugeError
from specgauge.scrape.collect import Collector
from specgauge.scrape.cpu_waits import CpuWaits


def main(arguments: list[str]) -> int:
    """Collect, parse and write; 5 if the file cannot be written."""
    url, out, *more = arguments
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    collector = Collector(url)
    worker = threading.Thread(target=collector.run, args=(stop,))
    waits = CpuWaits(int(more[0])) if more else None
    watcher = threading.Thread(target=waits.run, args=(stop,)) if waits else None
    worker.start()
    if watcher:
        watcher.start()
    threading.Thread(target=_wait_for_end_of_stdin, args=(stop,), daemon=True).start()
    worker.join()
    if watcher:
        watcher.join()
    # Imported now: Arrow's start must not take time from what is measured.
    from specgauge.record.atomic import write_parquet
    from specgauge.scrape.series import changes

    try:
        write_parquet(Path(out), changes(collector.scrapes, waits.rows if waits else ()))
    except SpecgaugeError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    return 0


def _wait_for_end_of_stdin(stop: threading.Event) -> None:
    sys.stdin.buffer.read()
    stop.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
