"""Which GPU a run takes: named, the only one, or none at all."""

import json

import pytest

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.gpu.choose import choose

A = {"uuid": "GPU-a", "pci_bus_id": "00000000:41:00.0", "name": "H200 A"}
B = {"uuid": "GPU-b", "pci_bus_id": "00000000:C1:00.0", "name": "H200 B"}
M = {
    "uuid": "GPU-m",
    "pci_bus_id": "00000000:E1:00.0",
    "name": "H200 M",
    "mig": True,
    "mig_uuids": ["MIG-1", "MIG-2"],
}


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch):
    def plant(*gpus):
        monkeypatch.setenv("SPECGAUGE_FAKE_NVML", json.dumps({"gpus": list(gpus)}))

    return plant


def picked(platform="cuda", option=None, environ=None, dotenv=None):
    return choose(platform, "m", option, environ or {}, dotenv or {})


def test_the_only_one_is_taken_and_that_is_said(cards) -> None:
    cards(A)
    found = picked()
    assert (found.device.uuid, found.why) == ("GPU-a", "the only one here")


def test_of_several_one_must_be_named(cards) -> None:
    cards(A, B)
    with pytest.raises(UsageError, match="several GPUs") as caught:
        picked()
    assert "00000000:41:00.0  GPU-a  H200 A" in str(caught.value)
    assert "GPU-b" in str(caught.value)


def test_who_names_it_wins_in_this_order(cards) -> None:
    cards(A, B)
    bus = [gpu["pci_bus_id"] for gpu in (A, B)]
    environ, dotenv = {"GPU_PCI_BUS_ID": bus[1]}, {"GPU_PCI_BUS_ID": bus[0], "GPU_UUID": "GPU-a"}
    assert picked(dotenv=dotenv).device.uuid == "GPU-a"
    assert picked(dotenv=dotenv).why == "named by GPU_PCI_BUS_ID in .env"
    assert picked(environ=environ, dotenv=dotenv).device.uuid == "GPU-b"
    assert picked(option="41:00.0", environ=environ).device.uuid == "GPU-a"


@pytest.mark.parametrize("index", ["0", "1", " 3 "])
def test_an_index_is_refused_with_the_cards_that_are_here(cards, index: str) -> None:
    cards(A, B)
    with pytest.raises(UsageError, match="index is not trusted") as caught:
        picked(option=index)
    assert "00000000:c1:00.0" in str(caught.value)


def test_a_whole_card_s_uuid_is_refused_an_instance_s_is_not(cards) -> None:
    cards(A, M)
    with pytest.raises(UsageError, match="by its PCI bus ID"):
        picked(option="GPU-a")
    found = picked(option="MIG-2")
    assert (found.device.uuid, found.device.is_instance) == ("MIG-2", True)
    pinned = {"GPU_PCI_BUS_ID": "00000000:e1:00.0", "GPU_UUID": "MIG-1"}
    assert picked(dotenv=pinned).device.uuid == "MIG-1"
    with pytest.raises(UsageError, match="in MIG mode"):
        picked(option="e1:00.0")
    cards(M)
    with pytest.raises(UsageError, match="in MIG mode"):
        picked()


def test_a_cpu_model_takes_none_whatever_is_pinned(cards) -> None:
    cards(A)
    assert picked("cpu", dotenv={"GPU_PCI_BUS_ID": "41:00.0"}) is None
    with pytest.raises(UsageError, match="platform: cpu"):
        picked("cpu", option="41:00.0")


def test_a_cpu_model_does_not_even_ask_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", "/there/is/no/such/file")
    assert picked("cpu") is None
    assert picked("any") is None


def test_a_model_for_any_takes_only_a_named_one(cards) -> None:
    cards(A)
    assert picked("any") is None
    assert picked("any", option="41:00.0").device.uuid == "GPU-a"


def test_no_gpu_where_one_is_needed(cards, monkeypatch: pytest.MonkeyPatch) -> None:
    cards()
    with pytest.raises(EnvironmentFault, match="shows none"):
        picked()
    monkeypatch.setenv("SPECGAUGE_FAKE_NVML", '{"unavailable": "no driver"}')
    with pytest.raises(EnvironmentFault, match=r"no driver; model 'm' needs one"):
        picked()
    with pytest.raises(EnvironmentFault, match=r"in \.env names one"):
        picked("any", dotenv={"GPU_PCI_BUS_ID": "41:00.0"})
