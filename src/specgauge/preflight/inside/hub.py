"""Asks the hub for a model: is it reachable, may we have it, how large is it; brings config.json.

Standard input: ``{"names": [[name, revision or null], …]}``.  huggingface_hub finds the token by
itself (HF_TOKEN, its file); none is passed here and none is printed.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def one(name: str, revision: str | None) -> dict[str, Any]:
    """What the hub says of one model."""
    from huggingface_hub import HfApi, hf_hub_download

    found: dict[str, Any] = {
        "error": None,
        "kind": None,
        "files": {},
        "config": None,
        "commit": None,
    }
    try:
        info = HfApi().model_info(name, revision=revision, files_metadata=True, timeout=20)
        found["commit"] = info.sha
        found["files"] = {f.rfilename: f.size or 0 for f in info.siblings or []}
        if "config.json" in found["files"]:
            path = hf_hub_download(name, "config.json", revision=revision)
            with open(path, encoding="utf-8") as file:
                found["config"] = json.load(file)
    except Exception as error:
        found["kind"] = type(error).__name__
        found["error"] = " ".join(str(error).split())[:400]
    return found


def main() -> None:
    """Print what the hub says of each."""
    names = json.load(sys.stdin)["names"]
    print("SPECGAUGE " + json.dumps([one(*pair) for pair in names]), flush=True)


main()
