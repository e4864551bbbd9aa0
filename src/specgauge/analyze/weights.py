"""Whose weights a run served, by what its manifest says.

What a model is called in its configuration is its user's choice (two of ours serve one model), so a
published result is known by the weights' own name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from specgauge.embedded.catalogue import MODELS

DUMMY = "dummy weights"
"""Nobody's: no published result stands beside those of a model's shapes."""
_HUB_CACHE = re.compile(r"(?:^|/)models--([^/]+?)--([^/]+)(?:/|$)")


def of(manifest: Mapping[str, object]) -> str | None:
    """A hub name, what an embedded model's makers call it, or a folder's last part; ``DUMMY``."""
    model, experiment = _mapping(manifest.get("model")), _mapping(manifest.get("experiment"))
    if _are_dummy(model.get("server_args"), _mapping(experiment.get("server")).get("args")):
        return DUMMY
    embedded = MODELS.get(str(model.get("embedded")))
    if embedded is not None:
        return embedded.published_as
    named = model.get("path") or model.get("embedded")
    if not isinstance(named, str):
        return None
    if cached := _HUB_CACHE.search(named):
        return f"{cached[1]}/{cached[2]}"
    return named if named.count("/") == 1 and named[0] != "/" else PurePosixPath(named).name


def _are_dummy(*arguments: object) -> bool:
    return any(
        "dummy" in (given.get("load-format"), given.get("load_format"))
        for given in map(_mapping, arguments)
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
