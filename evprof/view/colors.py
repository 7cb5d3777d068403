"""The palettes, and the arithmetic that shows they can be read: contrast, colour blindness, distance.

Colours are `#rrggbb` text here; the window turns them into its toolkit's own. Hues follow Okabe and Ito (2008).
"""

from __future__ import annotations

from functools import cache

STAGE_COLORS_DARK: dict[str, str] = {
    "load": "#b9babd",
    "preprocess": "#7dc6fc",
    "vision": "#1fae86",
    "prefill": "#f1b02f",
    "decode": "#487cdd",
    "draft": "#d385c8",
    "verify": "#d9622b",
}

STAGE_COLORS_LIGHT: dict[str, str] = {
    "load": "#666c7f",
    "preprocess": "#329cd7",
    "vision": "#3d906a",
    "prefill": "#b7881c",
    "decode": "#1b4eb6",
    "draft": "#df62af",
    "verify": "#b54708",
}

GROUND_DARK: dict[str, str] = {
    "window": "#0e1014",
    "panel": "#14171c",
    "raised": "#1c2027",
    "line": "#262b34",
    "text": "#e4e7ec",
    "text_dim": "#8b93a1",
    "accent": "#4c8dff",
    "good": "#40cc9f",
    "bad": "#f2735f",
    "warn": "#ebac3c",
    "selection": "#1f3150",
}

GROUND_LIGHT: dict[str, str] = {
    "window": "#f4f5f7",
    "panel": "#ffffff",
    "raised": "#eef0f3",
    "line": "#dfe3e8",
    "text": "#1a1e25",
    "text_dim": "#5d6674",
    "accent": "#2563eb",
    "good": "#10764d",
    "bad": "#c2331c",
    "warn": "#842d00",
    "selection": "#d9e6ff",
}


def channels(color: str) -> tuple[float, float, float]:
    """Red, green, blue of `#rrggbb` in 0…1, as encoded (sRGB)."""
    return tuple(int(color[start : start + 2], 16) / 255 for start in (1, 3, 5))  # type: ignore[return-value]  # three


def linear(channel: float) -> float:
    """One sRGB channel in 0…1 to linear light (IEC 61966-2-1)."""
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def luminance(color: str) -> float:
    """Relative luminance in 0…1 (WCAG 2.2)."""
    red, green, blue = (linear(channel) for channel in channels(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1…21 (WCAG 2.2)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@cache
def readable_on(color: str, ground: str, ink: str, least: float = 4.5) -> str:
    """`color`, or what of a mixture with `ink` first has the contrast `least` to `ground` (WCAG 2.2: small text)."""
    for share in range(21):
        parts = zip(channels(color), channels(ink), strict=True)
        mixed = "#" + "".join(f"{round(255 * (own + (other - own) * share / 20)):02x}" for own, other in parts)
        if contrast(mixed, ground) >= least:
            return mixed
    return ink


def ink_on(ground: str) -> str:
    """Near-black or white, whichever contrasts more with `ground`."""
    return max(("#0d0f13", "#ffffff"), key=lambda ink: contrast(ink, ground))
