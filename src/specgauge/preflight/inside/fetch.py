"""Brings models from the hub into its cache; what was brought before is not brought again.

Standard input: ``{"names": [[name, revision or null], …]}``.  Progress goes to standard error.
"""

from __future__ import annotations

import json
import sys
from typing import Any

UNUSED = ["*.gguf", "*.onnx", "*.h5", "*.msgpack", "*.tflite", "original/*", "consolidated*"]
"""Other packings of the same weights, which vLLM does not read beside safetensors."""
OTHER_WEIGHTS = ["*.bin", "*.pt", "*.pth"]


def one(name: str, revision: str | None) -> str:
    """Bring one; its folder."""
    from huggingface_hub import HfApi, snapshot_download

    files = [f.rfilename for f in HfApi().model_info(name, revision=revision).siblings or []]
    unused = list(UNUSED)
    if any(file.endswith(".safetensors") for file in files):
        unused += OTHER_WEIGHTS
    print("fetching " + name, file=sys.stderr, flush=True)
    return str(snapshot_download(name, revision=revision, ignore_patterns=unused))


def main() -> None:
    """Print the folders, or the first error."""
    found: dict[str, Any] = {"folders": [], "error": None, "kind": None}
    try:
        for pair in json.load(sys.stdin)["names"]:
            found["folders"].append(one(*pair))
    except Exception as error:
        found["kind"] = type(error).__name__
        found["error"] = " ".join(str(error).split())[:400]
    print("SPECGAUGE " + json.dumps(found), flush=True)


main()
