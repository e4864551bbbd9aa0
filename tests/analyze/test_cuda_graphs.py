"""The widest CUDA graph and the graph mode, as vLLM's log states them."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgauge.analyze.log import traits
from specgauge.analyze.log.traits import EngineTraits
from specgauge.analyze.records import LogLine

EXAMPLES = Path(__file__).parents[2] / "results" / "examples"
CONFIG = (
    "(EngineCore pid=2) INFO 11-30 03:35:12 [core.py:116] Initializing a V1 LLM engine (v0.26.0) "
    "with config: model='m', device_config={device}, compilation_config={{'mode': 3, "
    "'cudagraph_mode': <CUDAGraphMode.{mode}>, {more}'cudagraph_capture_sizes': [{sizes}], "
    "'max_cudagraph_capture_size': {most}}}"
)
BOTH = "FULL_AND_PIECEWISE: (2, 1)"


def config(mode: str, sizes: str, device: str = "cuda", more: str = "") -> str:
    most = sizes.rpartition(", ")[2] or "None"
    return CONFIG.format(mode=mode, sizes=sizes, device=device, more=more, most=most)


def read(*texts: str) -> EngineTraits:
    return traits.read([LogLine(float(i), "O", text) for i, text in enumerate(texts)])


def test_the_widest_size_and_the_mode() -> None:
    found = read(config(BOTH, "1, 2, 4, 8, 120, 128"))
    assert (found.graph_tokens, found.graph_mode) == (128, "FULL_AND_PIECEWISE")


def test_sizes_in_falling_order_and_json_as_older_versions_write_them() -> None:
    found = read(
        "Initializing a V1 LLM engine (v0.9.1) with config: model='m', device_config=cuda, "
        'compilation_config={"level":3,"cudagraph_capture_sizes":[512,504,496],'
        '"max_capture_size":512}'
    )
    assert (found.graph_tokens, found.graph_mode) == (512, None)


def test_what_the_user_asked_for_is_not_yet_what_the_engine_made_of_it() -> None:
    asked = "non-default args: {'compilation_config': {'cudagraph_capture_sizes': [1, 2, 640]}}"
    assert read(asked).graph_tokens is None
    assert read(asked, config(BOTH, "1, 2, 512")).graph_tokens == 512


def test_a_worker_that_leaves_the_mode_decides() -> None:
    left = (
        "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend "
        "X (support: 1); setting cudagraph_mode={}"
    )
    found = read(config(BOTH, "1, 512"), left.format("PIECEWISE"))
    assert (found.graph_tokens, found.graph_mode) == (512, "PIECEWISE")
    found = read(config(BOTH, "1, 512"), left.format("NONE"))
    assert (found.graph_tokens, found.graph_mode) == (None, None)


@pytest.mark.parametrize(
    "line",
    [
        config("NONE: 0", ""),
        config("NONE: 0", "", "cpu", "'decoder_replay_cudagraph_capture_sizes': [64], "),
        config(BOTH, "1, 2, 512", "cpu"),
    ],
)
def test_enforce_eager_and_cpus_have_none(line: str) -> None:
    found = read(line)
    assert (found.graph_tokens, found.graph_mode) == (None, None)


def captured(path: Path) -> EngineTraits:
    return read(*path.read_text(errors="replace").split("\n"))


def test_every_server_of_the_two_shipped_runs_on_an_h200() -> None:
    """max-num-seqs is 64: 2 x 64 without speculation, more than 512 with K = 3, 4 and 6."""
    found = {
        (path.parents[2].name, *path.parts[-3:-1]): captured(path)
        for path in EXAMPLES.glob("h200-*/*/start-*/server.log")
    }
    assert len(found) == 20
    for (_, variant, _), seen in found.items():
        assert seen.graph_tokens == (128 if variant.startswith("vanilla") else 512), variant
        assert seen.graph_mode == "FULL_AND_PIECEWISE"


def test_captured_servers_on_a_cpu_have_none(samples: Path) -> None:
    logs = sorted(samples.glob("*-cpu/*/server.log"))
    assert len(logs) >= 9
    for path in logs:
        found = captured(path)
        assert found.vllm_version is not None
        assert (found.graph_tokens, found.graph_mode) == (None, None)
