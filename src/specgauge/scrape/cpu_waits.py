"""The waits of the server's processes for a CPU as rows of ``metrics.parquet``."""

from __future__ import annotations

import threading

from specgauge.record.schema import CPU_RUN, CPU_STOLEN, CPU_THROTTLED, CPU_WAIT
from specgauge.serve.cpu_accounts import EVERY_S, RUN, STOLEN, THROTTLED, WAIT, CpuAccounts, Sample

_NAMES = {RUN: CPU_RUN, WAIT: CPU_WAIT, THROTTLED: CPU_THROTTLED, STOLEN: CPU_STOLEN}

Row = tuple[float, str, str, float]
"""A row of ``metrics.parquet``."""


class CpuWaits:
    """Samples the tree below ``root`` until told to stop."""

    def __init__(self, root: int) -> None:
        self._accounts = CpuAccounts(root)
        self.rows: list[Row] = []
        """A row when a value differs from its last, as in ``metrics.parquet``."""

    def run(self, stop: threading.Event) -> None:
        """Sample now and then every ``EVERY_S`` until ``stop`` is set; once more at the end."""
        while True:
            self.rows += [row_of(sample) for sample in self._accounts.look()]
            if stop.wait(EVERY_S):
                self.rows += [row_of(sample) for sample in self._accounts.look()]
                return


def row_of(sample: Sample) -> Row:
    """The sample as a row."""
    t, account, labels, value = sample
    return t, _NAMES[account], labels, value
