"""A run stays on the GPU that it was begun on."""

from __future__ import annotations

from typing import Any

from specgauge.record.compare import machine_differs
from specgauge.record.manifest import Manifest, WorkloadFacts


def on(gpu: dict[str, Any] | None) -> Manifest:
    uuid = {"gpu_uuid": gpu["uuid"]} if gpu else {}
    return Manifest(
        run_id="r", created_at="", experiment={}, model={}, variants={}, runtime="process",
        workload=WorkloadFacts(name="w", sha256="", prompts=1), fingerprint="f", gpu=gpu,
        machine={"cpu": "A", "gpus": ["H200", "H200"], **uuid},
    )  # fmt: skip


def test_another_card_of_the_same_machine_is_another_machine() -> None:
    assert machine_differs(on({"uuid": "GPU-a"}), on({"uuid": "GPU-a"})) is None
    why = machine_differs(on({"uuid": "GPU-a"}), on({"uuid": "GPU-b"}))
    assert why is not None
    assert "gpu_uuid was GPU-a, here it is GPU-b" in why


def test_the_manifest_keeps_what_the_card_is() -> None:
    made = on({"uuid": "GPU-a", "driver": "580.1"})
    assert Manifest.model_validate(made.model_dump(by_alias=True)) == made
    assert on(None).gpu is None
