"""The dashboard that is checked in."""

import json
import re
from pathlib import Path

from specgauge.stack.dashboard import OUTPUT, PANELS, text

ROOT = Path(__file__).resolve().parents[2]


def test_checked_in_dashboard_is_what_the_code_makes() -> None:
    assert (ROOT / OUTPUT).read_text() == text(), "run: python -m specgauge.stack.dashboard"


def test_every_panel_has_its_own_place_and_title() -> None:
    panels = json.loads(text())["panels"]
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
    assert len(places) == len(panels) == len({p["title"] for p in panels}) == len(PANELS)


def test_vllm_panels_tell_variants_apart() -> None:
    for panel in PANELS:
        for query in panel.queries:
            if "vllm:" in query.expr:
                assert re.search(r"by \(variant|on \(variant\)", query.expr), panel.title
                assert "{{variant}}" in query.legend
