"""LOSSY: greedy outputs leave the baseline's where the model was sure.

Two runs of a model part at ties: batch sizes and kernels round differently, and a drafter verifies
several tokens at a time.  A place where the best token led by more than half a nat (its
probability 1.6 times the second's) is no tie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from specgauge.analyze import divergence
from specgauge.analyze.document import Reason
from specgauge.analyze.records import CellRecord
from specgauge.record.documents import Margins

CODE = "LOSSY"

SURE_NATS = 0.5
"""Lead of the best token over the second from which a difference is no tie: bf16 logits of some 20
are exact to 0.06, and a few layers' rounding adds up to a few times that."""


@dataclass(frozen=True)
class Leaving:
    """How often one side's outputs leave the other's."""

    requests: int
    parted: int
    positions: tuple[int, ...]
    margins: tuple[float, ...]
    """Of those whose margin was asked for."""

    @property
    def sure(self) -> int:
        """Parted where the model was sure."""
        return sum(m > SURE_NATS for m in self.margins)

    @property
    def share(self) -> float:
        """Of the requests, parted where the model was sure.

        Margins are asked for the first of many divergences only: the others count like those.
        """
        if not self.requests or not self.margins:
            return 0.0
        return self.parted / self.requests * self.sure / len(self.margins)


Pair = tuple[CellRecord, CellRecord, Margins | None]
"""A cell, the cell it is compared with, and the margins that its start asked for."""


def leaving(pairs: Sequence[Pair]) -> Leaving:
    """Over several pairs of cells."""
    requests = parted = 0
    positions: list[int] = []
    margins: list[float] = []
    for one, other, asked in pairs:
        found, compared = divergence.compare(one, other)
        requests, parted = requests + compared, parted + len(found)
        positions += [d.position for d in found]
        known = _margins(one, other, asked)
        margins += [known[key] for d in found if (key := (d.index, d.position)) in known]
    return Leaving(requests, parted, tuple(positions), tuple(margins))


def _margins(
    one: CellRecord, other: CellRecord, asked: Margins | None
) -> Mapping[tuple[int, int], float]:
    """(index, position) → margin, if it was asked for against that very start."""
    if asked is None or (asked.variant, asked.start) != (other.variant, other.start):
        return {}
    return {
        (m.index, m.position): m.margin
        for m in asked.margins
        if m.margin is not None and (m.load, m.repeat) == (one.load, one.repeat)
    }


def applies(cells: Sequence[CellRecord], speculative_config: Mapping[str, object] | None) -> bool:
    """Greedy cells of a variant whose acceptance is real."""
    if not speculative_config or any("synthetic" in str(k) for k in speculative_config):
        return False
    if speculative_config.get("rejection_sample_method") == "synthetic":
        return False
    documents = [c.document for c in cells]
    return bool(documents) and all(d is not None and d.temperature == 0 for d in documents)


def check(pairs: Sequence[Pair], itself: Sequence[Pair]) -> Reason | None:
    """Suspect when outputs leave the baseline's where the model was sure more often than the
    baseline's leave its own, at the same batch size; info while they only leave at ties.

    ``pairs``: variant against baseline.  ``itself``: the baseline's starts against each other.
    """
    found, own = leaving(pairs), leaving(itself)
    if not found.parted:
        return None
    suspect = found.sure > 0 and found.share > own.share
    detail = (
        f"{found.parted} of {found.requests} greedy outputs leave the baseline's, first at token "
        f"{min(found.positions)} (median {median(found.positions):.0f})"
    )
    if found.margins:
        detail += (
            f"; the two best tokens were {median(found.margins):.2f} nat apart there (median of "
            f"{len(found.margins)}), in {found.sure} cases more than {SURE_NATS:g}"
        )
    else:
        detail += "; nobody asked how sure the model was there"
    if own.requests:
        detail += f". The baseline leaves itself in {own.parted} of {own.requests}"
        detail += f", {own.sure} of them sure" if own.margins else ""
    return Reason(
        code=CODE,
        severity="suspect" if suspect else "info",
        scope="claim",
        detail=detail + ".",
        remedy="Check the drafter and its rejection method against vLLM's reports; ties alone are "
        "no loss." if suspect else None,
        evidence={"parted": found.parted, "of": found.requests, "sure": found.sure,
                  "baseline_parted": own.parted, "baseline_of": own.requests,
                  "baseline_sure": own.sure},
    )  # fmt: skip
