"""From a dead server's log to a sentence: captured logs, and lines as reported to its authors."""

from __future__ import annotations

from pathlib import Path

import pytest

from specgauge.config.project import Project
from specgauge.config.resolve import resolve
from specgauge.serve.diagnosis import EAGER, Diagnosis, diagnose, where_set
from specgauge.serve.logtail import last_lines

CAPTURED = Path(__file__).parent / "captured"
"""vLLM 0.32.0 (CPU build) provoked to fail, paths shortened; the last 150 lines at most."""


def captured(name: str) -> Diagnosis:
    found = diagnose((CAPTURED / f"{name}.txt").read_text().splitlines())
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("unknownflag", "unknown_flag", ["--disable-log-requests", "--no-such-flag"]),
        ("badvalue", "bad_value", ["--max-model-len", "'abc'"]),
        ("longlen", "too_long", ["999999", "8192"]),
        ("kvsmall", "kv_cache", ["400000", "8.58 GiB", "1.0 GiB", "46464"]),
        ("badmethod", "speculative_config", ["method", "'ngram'"]),
        ("badkey", "speculative_config", ["prompt_lookup_maximum", "Unexpected keyword"]),
        ("nodrafter", "no_model", ["/nowhere/drafter"]),
        ("offline", "no_model", ["HF_HUB_OFFLINE"]),
        ("nohub", "no_hub", ["cannot be reached"]),
        ("portuse", "port", ["taken"]),
        ("noweights", "no_model", ["no weights in /models/empty"]),
        ("brokenweights", "engine", ["SafetensorError", "incomplete metadata"]),
    ],
)
def test_captured_failures(name: str, kind: str, words: list[str]) -> None:
    found = captured(name)
    assert found.kind == kind
    for word in words:
        assert word in found.sentence


CAPTURE = [
    '(EngineCore pid=1) ERROR 03-10 14:43:46 [core.py:1100]   File "/x/gpu_model_runner.py", '
    "line 5337, in capture_model",
    "(EngineCore pid=1) ERROR 03-10 14:43:46 [core.py:1100]     self._capture_cudagraphs(",
]
"""Frames as in vllm-project/vllm#36634."""


@pytest.mark.parametrize(
    ("lines", "kind", "word"),
    [
        # vllm-project/vllm#11587, #4432: PyTorch's own words for an interrupted capture.
        (
            ["RuntimeError: CUDA error: operation failed due to a previous error during capture"],
            "graph_capture",
            "CUDA graphs",
        ),
        (
            ["AcceleratorError: CUDA error: operation not permitted when stream is capturing"],
            "graph_capture",
            "CUDA graphs",
        ),
        ([*CAPTURE, "RuntimeError: something of a kernel's own"], "graph_capture", "CUDA graphs"),
        ([*CAPTURE, "torch.OutOfMemoryError: CUDA out of memory."], "graph_capture", "graphs"),
        # A missing kernel shows first where graphs are captured: the build is the cause.
        (
            [*CAPTURE, "CUDA error: no kernel image is available for execution on the device"],
            "architecture",
            "no kernels",
        ),
        # vllm-project/vllm#20305.
        (
            [
                "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than "
                "desired GPU memory utilization (0.95, 45.01 GiB). Decrease GPU memory"
            ],
            "occupied",
            "31.44 of 47.38 GiB",
        ),
        # pytorch/pytorch#175666: newer releases name the device.
        (
            [
                "ValueError: Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less "
                "than desired GPU memory utilization (0.9, 19.84 GiB)."
            ],
            "occupied",
            "19.84 GiB",
        ),
        (
            ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.45 GiB."],
            "out_of_memory",
            "memory was not enough",
        ),
        (["ValueError: No available memory for the cache blocks."], "kv_cache", "KV cache"),
        # verl-project/verl-omni#505, and the seed's wording of the same.
        (["TypeError: type 'array.array' is not subscriptable"], "python", "3.12"),
        (["TypeError: 'type' object is not subscriptable"], "python", "3.12"),
        # vllm-project/vllm#15329.
        (["RuntimeError: Failed to find C compiler. Please specify via CC"], "compiler", "C comp"),
        (["FileNotFoundError: [Errno 2] No such file or directory: 'ninja'"], "compiler", "ninja"),
        # McGill-NLP/llm2vec#130.
        (
            [
                "OSError: You are trying to access a gated repo.",
                "401 Client Error. (Request ID: Root=1-66)",
            ],
            "access",
            "does not give",
        ),
        (["RuntimeError: Failed to infer device type"], "no_gpu", "No GPU"),
    ],
)
def test_lines_as_reported(lines: list[str], kind: str, word: str) -> None:
    after = [f"(APIServer pid=2) traceback line {n}" for n in range(80)]
    found = diagnose([*lines, *after, "RuntimeError: Engine core initialization failed."])
    assert found is not None
    assert found.kind == kind
    assert word in found.sentence


def test_graph_capture_tells_to_change_all_variants() -> None:
    found = diagnose(CAPTURE)
    assert found is not None
    assert found.remedy == EAGER
    assert "all" in EAGER
    assert "enforce-eager" in EAGER


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["INFO 11-29 [core.py:1] Initializing an engine with enforce_eager=False"],
        ["Capturing CUDA graphs (FULL): 100%|████| 11/11 [00:00<00:00, 16.32it/s]"],
        ["RuntimeError: Engine core initialization failed. See root cause above."],
        ["INFO [gpu_worker.py:560] Available KV cache memory: 65.75 GiB"],
    ],
)
def test_nothing_is_made_up(lines: list[str]) -> None:
    assert diagnose(lines) is None


def test_old_lines_are_not_the_cause() -> None:
    early = ["OSError: [Errno 98] Address already in use"]
    assert diagnose([*early, *["a line"] * 1000]) is None


def test_where_a_flag_was_set(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    resolved = resolve(Project(root), "quick")
    variant = resolved.variants["ngram"].model_copy(
        update={"server_args": {"disable_log_requests": True}}
    )
    resolved.variants["ngram"] = variant
    assert "variant 'ngram'" in where_set("--disable-log-requests", resolved)
    assert "variant 'ngram'" in where_set("--no-disable-log-requests", resolved)
    assert "model 'smollm2-135m'" in where_set("--max-model-len", resolved)
    assert "specgauge itself" in where_set("--served-model-name", resolved)


def test_log_s_last_lines_come_without_stamps(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert last_lines(log) == []
    log.write_text(
        "2026-11-29T20:41:00.000Z O first\n2026-11-29T20:41:00.001Z E \n"
        "2026-11-29T20:41:00.002Z E   second\n"
    )
    assert last_lines(log) == ["first", "  second"]


def test_cause_far_above_the_end_is_found(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    text = (CAPTURED / "kvsmall.txt").read_text().splitlines()
    log.write_text(
        "".join(f"2026-11-29T20:41:00.000Z O {line}\n" for line in ["x" * 500] * 900 + text)
    )
    found = diagnose(last_lines(log))
    assert found is not None
    assert found.kind == "kv_cache"
