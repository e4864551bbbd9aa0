"""NVML's clock event reasons (``nvmlClocksEventReason…`` in nvml.h) in words.  Stdlib only."""

from __future__ import annotations

POWER_CAP = 0x4
HW_SLOWDOWN = 0x8
SW_THERMAL = 0x20
HW_THERMAL = 0x40
HW_POWER_BRAKE = 0x80

SLOWDOWN = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | HW_POWER_BRAKE
"""Heat or the machine's power supply holds the card back."""

_WORDS = {
    0x1: "idle",
    0x2: "clocks set by the administrator",
    POWER_CAP: "power cap",
    HW_SLOWDOWN: "hardware slowdown",
    0x10: "synchronised boost",
    SW_THERMAL: "thermal slowdown by the driver",
    HW_THERMAL: "thermal slowdown by the hardware",
    HW_POWER_BRAKE: "power brake of the machine",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability limit",
}


def words(mask: int) -> list[str]:
    """The reasons in ``mask``, the lowest bit first; unknown bits as a number."""
    found = [text for bit, text in _WORDS.items() if mask & bit]
    rest = mask & ~sum(_WORDS)
    return [*found, f"reason 0x{rest:x}"] if rest else found
