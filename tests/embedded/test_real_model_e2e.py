"""The real package, the real conversion, the real tokenizer."""

import subprocess
from pathlib import Path

import pytest

from specgauge.embedded.catalogue import SMOLLM2_135M
from specgauge.embedded.fetch import sha256
from specgauge.embedded.model import ensure

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"

CHECK = """
import sys
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
text = "<|im_start|>user\\nAdd  12 and 305, s'il vous pla\\u00eet<|im_end|>"
ids = tokenizer(text).input_ids
assert tokenizer.decode(ids) == text, tokenizer.decode(ids)
assert ids[0] == tokenizer.bos_token_id and ids[-1] == tokenizer.eos_token_id
assert [tokenizer.decode(i) for i in ids if tokenizer.decode(i).strip().isdigit()] == list("12305")
chat = tokenizer.apply_chat_template(
    [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
)
assert chat.endswith("<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n"), chat
"""


@pytest.mark.e2e
def test_the_published_package_becomes_the_pinned_model(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECGAUGE_CACHE", str(tmp_path))
    folder = ensure("smollm2-135m", ROOT)
    assert {p.name: sha256(p) for p in folder.iterdir()} == SMOLLM2_135M.files
    subprocess.run([PYTHON, "-c", CHECK, folder], check=True, env={"HF_HUB_OFFLINE": "1"})
