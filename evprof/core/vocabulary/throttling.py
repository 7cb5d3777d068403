"""What slows a GPU down: NVML's reasons in words, and which of them make a run's figures doubtful."""

from __future__ import annotations

_REASONS = {
    0x2: "applications clocks setting",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
    0x100: "display clocks setting",
}
"""NVML's bits in words; idling (0x1) is no reason to mistrust a figure."""

_DECIDED = ("applications clocks setting", "display clocks setting", "sync boost")
"""Reasons that somebody set and that hold all the time: told in the state, not warned about."""

IDLE_BIT = 0x1
"""The GPU has nothing to do, so its clocks are low."""

HOT_C = 85
"""From here on GPUs lower their clocks sooner or later."""


def throttle_reasons(bits: int | None) -> list[str] | None:
    """NVML's bit mask in words, in the order of its bits; None when not known."""
    return None if bits is None else [name for bit, name in _REASONS.items() if bits & bit]


def doubtful_reasons(reasons: list[str] | None) -> list[str]:
    """Those that nobody decided on: they make times doubtful."""
    return [name for name in reasons or [] if name not in _DECIDED]
