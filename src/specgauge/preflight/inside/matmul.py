"""A real product of matrices on the GPU: an import proves nothing, a launched kernel does."""

from __future__ import annotations

import json
from typing import Any

SIZE = 2048


def main() -> None:
    """Print whether it is right, or CUDA's error, and which card it ran on."""
    import torch

    found: dict[str, Any] = {"error": None, "right": None, "uuid": None}
    try:
        ones = torch.ones(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
        product = ones @ ones
        torch.cuda.synchronize()
        # 2048 is a power of two: exact in bfloat16.
        found["right"] = bool((product == SIZE).all().item())
        found["uuid"] = str(getattr(torch.cuda.get_device_properties(0), "uuid", "")) or None
    except Exception as error:
        found["error"] = str(error)[:500]
    print("SPECGAUGE " + json.dumps(found))


main()
