"""One scrape's text as samples."""

from __future__ import annotations

import json
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

DROPPED_FAMILIES = ("python_gc_", "http_")
"""Of the Python process and the web framework: many series, nothing about the engine."""


def samples(text: str) -> Iterator[tuple[str, str, float]]:
    """(name, labels, value) of each sample, as exposed.

    ``labels`` is a JSON object with sorted keys and no spaces.  ``_created`` gauges and the
    families in ``DROPPED_FAMILIES`` are left out.

    Raises:
        ValueError: the text is not in Prometheus' exposition format.
    """
    for family in text_string_to_metric_families(text):
        if family.name.startswith(DROPPED_FAMILIES):
            continue
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                yield sample.name, labels_text(sample.labels), float(sample.value)


def labels_text(labels: dict[str, str]) -> str:
    """Labels in their canonical form."""
    return json.dumps(labels, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
