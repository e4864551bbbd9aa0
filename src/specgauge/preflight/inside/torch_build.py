"""What torch was built for.  Imports torch: seconds.  Touches no GPU but to ask for its kind."""

from __future__ import annotations

import json
from typing import Any


def main() -> None:
    """Print version, CUDA, architectures, and what CUDA says of the first visible GPU."""
    import torch

    found: dict[str, Any] = {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "arch_list": [],
        "devices": 0,
        "capability": None,
        "name": None,
        "error": None,
    }
    if torch.version.cuda:
        try:
            torch.cuda.init()
            found["devices"] = torch.cuda.device_count()
            found["arch_list"] = torch.cuda.get_arch_list()
            found["capability"] = list(torch.cuda.get_device_capability(0))
            found["name"] = torch.cuda.get_device_name(0)
        except Exception as error:
            found["error"] = str(error)[:500]
    print("SPECGAUGE " + json.dumps(found))


main()
