"""Which GPU is meant."""

import pytest

from specgauge.errors import EnvironmentFault, UsageError
from specgauge.gpu.fake import FakeGpu, FakeNvml
from specgauge.gpu.find import devices, find, find_mig, normal_bus_id


def nvml() -> FakeNvml:
    return FakeNvml(
        [
            FakeGpu("GPU-a", "00000000:41:00.0"),
            FakeGpu("GPU-b", "00000000:C1:00.0"),
            FakeGpu("GPU-m", "00000001:01:00.0", mig=True, mig_uuids=["MIG-1", "MIG-2"]),
        ]
    )


@pytest.mark.parametrize(
    "text", ["00000000:41:00.0", "0000:41:00.0", "41:00.0", "41:00", " 0000:41:00.0 "]
)
def test_every_usual_form_is_the_same_card(text: str) -> None:
    assert normal_bus_id(text) == "00000000:41:00.0"


@pytest.mark.parametrize("text", ["", "0", "GPU-a", "41.00.0", "41:00.9", "xx:00.0"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a PCI bus ID"):
        normal_bus_id(text)


def test_letters_case_and_domain_count() -> None:
    assert find(nvml(), "c1:00.0").uuid == "GPU-b"
    with pytest.raises(UsageError):
        find(nvml(), "01:00.0")  # the card at 01:00.0 is in domain 1


def test_unknown_bus_id_lists_those_present() -> None:
    with pytest.raises(UsageError) as caught:
        find(nvml(), "00:00.0")
    for part in ("00000000:41:00.0", "GPU-a", "GPU-b", "MIG-2"):
        assert part in str(caught.value)


def test_mig_card_is_only_given_by_instance() -> None:
    with pytest.raises(UsageError, match="MIG-1"):
        find(nvml(), "00000001:01:00.0")
    assert find_mig(nvml(), "MIG-2").uuid == "GPU-m"
    with pytest.raises(UsageError, match="no MIG instance"):
        find_mig(nvml(), "MIG-3")


def test_no_answer_is_the_machine_s_fault() -> None:
    class Dead(FakeNvml):
        def devices(self):
            from specgauge.gpu.device import NvmlFault

            raise NvmlFault("Unknown Error")

    with pytest.raises(EnvironmentFault, match="Unknown Error"):
        devices(Dead([]))
