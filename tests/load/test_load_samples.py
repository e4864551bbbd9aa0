"""Captured streams of real vLLM servers parse completely."""

import json
from pathlib import Path

import pytest

from specgauge.load.completion import rows
from specgauge.load.exchange import Exchange
from specgauge.load.plan import PlannedRequest

SAMPLES = Path(__file__).parents[2] / ".." / "shared" / "vllm" / "samples"
CAPTURED = sorted(SAMPLES.glob("**/*.sse"))


@pytest.mark.skipif(not CAPTURED, reason=f"no captured streams at {SAMPLES}")
@pytest.mark.parametrize("path", CAPTURED, ids=lambda p: f"{p.parts[-3]}-{p.parts[-2]}-{p.name}")
def test_every_token_of_a_captured_stream(path):
    body = path.read_bytes()
    made = Exchange(PlannedRequest(0, "p", "c", (1,), 32, 0), worker=0, slot=0)
    made.send, made.done, made.status = 0, 10, 200
    made.body, made.length, made.reads = [body], len(body), [(len(body), 5, 0)]
    request, chunks = rows(made, 0, 0.0)
    said = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    ids = [choice["token_ids"] for value in said for choice in value["choices"]]
    assert request["text"] == "".join(c["text"] for v in said for c in v["choices"])
    assert request["finish_reason"] == "length"
    assert request["usage_completion_tokens"] in (16, 32)
    if None in ids:  # captured without return_token_ids: read whole, but not usable
        assert request["state"] == "failed"
        assert "return_token_ids" in request["error"]
        assert set(ids) == {None}
        return
    assert (request["state"], request["error"]) == ("ok", None)
    assert [chunk["token_ids"] for chunk in chunks] == [some for some in ids if some]
    assert request["output_tokens"] == request["usage_completion_tokens"] == sum(map(len, ids))
