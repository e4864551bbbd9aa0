"""The GPU checks on planted cards: busy, hidden, too small, in MIG mode, silent, two of them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from planted import CARD, EAGLE3_32B, GIB, QWEN3_32B, Machine, card

from specgauge.errors import UsageError
from specgauge.gpu.fake import FakeGpu, FakeProcess
from specgauge.gpu.lock import DeviceLock
from specgauge.preflight.checks import gpu, memory, torch
from specgauge.preflight.checks.models import weights
from specgauge.preflight.context import Context
from specgauge.preflight.result import Result


def looked(context: Context) -> Result:
    """The three GPU checks; the last one made."""
    for check in (gpu.driver, gpu.card, gpu.tenants):
        result = check(context)
        if result.status == "fail":
            return result
    return result


def test_free_card(machine: Machine) -> None:
    context = machine.context(bus_id="41:00.0")
    assert gpu.driver(context).status == "ok"
    seen = gpu.card(context).seen
    for part in ("00000000:41:00.0", CARD, "95.0 GiB", "12.0"):
        assert part in seen
    assert gpu.tenants(context).status == "ok"
    context.close()


def test_no_driver(machine: Machine) -> None:
    machine.cards = None
    result = gpu.driver(machine.context())
    assert result.status == "fail"
    assert "NVML Shared Library Not Found" in result.seen


def test_cpu_model_asks_for_no_gpu(machine: Machine) -> None:
    machine.cards = None
    machine.model["platform"] = "cpu"
    context = machine.context()
    for check in (gpu.driver, gpu.card, gpu.tenants, torch.matmul):
        assert check(context).status == "skipped"


def test_only_card_needs_no_name_and_two_do(machine: Machine) -> None:
    context = machine.context()
    assert looked(context).status == "ok"
    context.close()
    machine.cards = [card(), FakeGpu("GPU-preflight-b", "00000000:C1:00.0")]
    with pytest.raises(UsageError) as caught:
        looked(machine.context())
    for part in ("00000000:41:00.0", CARD, "00000000:c1:00.0", "GPU-preflight-b"):
        assert part in str(caught.value)


@pytest.mark.parametrize("bus_id", ["42:00.0", "0"])
def test_unknown_card_lists_those_present(machine: Machine, bus_id: str) -> None:
    with pytest.raises(UsageError) as caught:
        looked(machine.context(bus_id=bus_id))
    assert "00000000:41:00.0" in str(caught.value)


def test_bus_id_from_the_environment(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.cards = [card(), FakeGpu("GPU-preflight-b", "00000000:C1:00.0")]
    monkeypatch.setenv("GPU_PCI_BUS_ID", "0000:C1:00.0")
    context = machine.context()
    looked(context)
    assert context.found.gpu is not None
    assert context.found.gpu.device.uuid == "GPU-preflight-b"
    context.close()


def test_card_in_mig_mode(machine: Machine) -> None:
    machine.cards = [card(mig=True, mig_uuids=["MIG-1"])]
    with pytest.raises(UsageError, match="MIG-1"):
        looked(machine.context(bus_id="41:00.0"))


def test_silent_card(machine: Machine) -> None:
    machine.cards = [card(fault="GPU is lost")]
    result = looked(machine.context())
    assert result.status == "fail"
    assert "GPU is lost" in result.seen


def test_tenants_are_named_and_free_cards_offered(machine: Machine) -> None:
    machine.cards = [
        card(processes=[FakeProcess(os.getpid(), 12 * GIB)]),
        FakeGpu("GPU-preflight-b", "00000000:C1:00.0"),
        FakeGpu("GPU-preflight-c", "00000000:D1:00.0", processes=[FakeProcess(1, GIB)]),
    ]
    result = looked(machine.context(bus_id="41:00.0"))
    assert result.status == "fail"
    assert f"pid {os.getpid()}" in result.seen
    assert "12.0 GiB" in result.seen
    assert result.remedy is not None
    assert "00000000:c1:00.0" in result.remedy
    assert "d1:00.0" not in result.remedy  # it is busy too
    assert f"Yours: {os.getpid()}" in result.remedy


def test_memory_of_invisible_processes(machine: Machine) -> None:
    machine.cards = [card(base=20 * GIB)]
    result = looked(machine.context())
    assert result.status == "fail"
    assert "does not show here" in result.seen


def test_who_is_on_it_may_not_be_told(machine: Machine) -> None:
    machine.cards = [card(processes_fault="Insufficient Permissions", base=20 * GIB)]
    context = machine.context()
    assert looked(context).status == "fail"
    context.close()
    machine.cards = [card(processes_fault="Insufficient Permissions")]
    context = machine.context()
    assert looked(context).status == "ok"  # the memory says that nobody is
    context.close()


def test_another_specgauge_is_not_disturbed(machine: Machine) -> None:
    lock = DeviceLock(CARD)
    assert lock.acquire(0, lambda _: False, "ann, pid 4711")
    result = looked(machine.context())
    lock.release()
    assert result.status == "fail"
    assert "ann, pid 4711" in result.seen


def test_lock_is_held_until_the_end(machine: Machine) -> None:
    context = machine.context()
    looked(context)
    other = DeviceLock(CARD)
    assert not other.acquire(0, lambda _: False)
    context.close()
    assert other.acquire(0, lambda _: False)
    other.release()


def sized(machine: Machine, total: float, used: float = 0.5, **args: Any) -> Result:
    """The memory check of Qwen3-32B with its eagle3 drafter, from configuration files alone."""
    target = machine.model_folder(QWEN3_32B)
    drafter = machine.model_folder(EAGLE3_32B, name="drafter")
    machine.model |= {"path": str(target), "drafters": {"eagle3": str(drafter)}}
    machine.model["server_args"] |= args
    machine.write("variants", "eagle3", {
        "drafter": "eagle3",
        "speculative_config": {"method": "eagle3", "num_speculative_tokens": 3}})  # fmt: skip
    machine.experiment["variants"] = ["vanilla", "eagle3"]
    machine.cards = [card(total=round(total * GIB), base=round(used * GIB))]
    context = machine.on_card()
    weights(context)
    return memory.memory(context)


def test_seed_s_model_on_the_seed_s_card(machine: Machine) -> None:
    # The seed's log, eagle3: weights and drafter 62.5 GiB (as on the H200), a KV cache of some
    # 20 GiB; vanilla's 22.06 GiB held 90,368 tokens.
    result = sized(machine, 95.0)
    assert result.status == "ok"
    assert "weights 61.0 GiB" in result.seen
    assert "drafter 1.5 GiB" in result.seen
    kv = float(result.seen.split("KV cache ")[1].split()[0])
    assert 19 < kv < 22


def test_too_small_a_card(machine: Machine) -> None:
    assert sized(machine, 70.0).status == "fail"


def test_length_that_fits_is_told(machine: Machine) -> None:
    result = sized(machine, 75.0, **{"max-model-len": 40960})
    assert result.status == "fail"
    assert result.remedy is not None
    most = int(result.remedy.split("at most ")[1].split()[0])
    assert 0 < most < 40960
    assert sized(machine, 75.0, **{"max-model-len": most}).status != "fail"


def test_busy_card_has_too_little_left(machine: Machine) -> None:
    result = sized(machine, 95.0, used=20)
    assert result.status == "fail"
    assert "85.5 GiB free" in result.seen


def test_largest_load_may_be_crowded(machine: Machine) -> None:
    machine.experiment["loads"] = [{"concurrency": 64, "requests": 2}]
    result = sized(machine, 95.0)
    assert result.status == "warn"
    assert str(64 * 2048) in result.seen


def test_two_cards_share_the_weights(machine: Machine) -> None:
    result = sized(machine, 48.0, **{"tensor-parallel-size": 2})
    assert result.status == "ok"
    assert "weights 30.5 GiB" in result.seen


def test_nothing_known_is_said(machine: Machine) -> None:
    result = memory.memory(machine.on_card())
    assert result.status == "skipped"


def test_cpu_s_memory(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = machine.model_folder(QWEN3_32B)
    machine.model |= {
        "path": str(folder),
        "platform": "cpu",
        "server_env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
    }
    for free, status in ((60 * GIB, "fail"), (70 * GIB, "ok")):
        monkeypatch.setattr(memory, "available", lambda free=free: free)
        context = machine.context()
        weights(context)
        assert memory.memory(context).status == status
