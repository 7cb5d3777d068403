"""What MFU and MBU are, in tool tips."""

from __future__ import annotations

ROOF_TIPS = {
    "MFU": "Operations that the model's shape needs at least, a second, as a share of what this machine was measured to"
    " do.",
    "MBU": "Bytes that a step reads at least, a second, as a share of the bandwidth measured here. Where all of them"
    " fit the processor's cache it may exceed 100 %.",
}
