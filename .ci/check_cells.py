"""Fails when a run of ``ci.yaml`` lacks a planned cell or its report.  Standard library only."""

import json
import sys
from pathlib import Path

PLANNED = {
    (variant, start, load)
    for variant, start in (("vanilla", 0), ("ngram", 0), ("vanilla", 1))
    for load in ("c1", "c16")
}


def main(folder: Path) -> str | None:
    """None when all is there, else what is not."""
    path = folder / "analysis" / "summary.json"
    if not path.is_file():
        return f"{path} is missing"
    cells = json.loads(path.read_text())["cells"]
    for cell in cells:
        print(f"{cell['variant']} start {cell['start']} {cell['load']}: {cell['verdict']}")
    measured = {(c["variant"], c["start"], c["load"]) for c in cells if c["observed"]}
    if missing := PLANNED - measured:
        return f"cells missing: {sorted(missing)}"
    failed = [c for c in cells if c["observed"]["failed"] or not c["observed"]["output_tokens"]]
    if failed:
        return f"{len(failed)} cells with failed requests or no tokens"
    if not (folder / "analysis" / "report.md").is_file():
        return "analysis/report.md is missing"
    return None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
