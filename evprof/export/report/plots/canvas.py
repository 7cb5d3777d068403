"""A sheet to draw on in SVG: lines, bars, words; colours are CSS variables, so that one picture suits both themes.

Elements are built as a tree: no text can ever become markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement

from evprof.core.safe_text import one_line

FONT_PX = 12.0

_NARROW = frozenset("ijl.,:;|'!()[] tfrI1·")
_WIDE = frozenset("mwMW%@—…ⁱᵐ")


def text_width(text: str, size_px: float = FONT_PX) -> float:
    """About how wide a line of a sans-serif is, rather too much than too little."""
    return size_px * sum(_width(character) for character in text)


def _width(character: str) -> float:
    if character in _NARROW:
        return 0.36 if character != "1" else 0.58
    if character in _WIDE:
        return 0.92
    if ord(character) > 0x2E80:
        return 1.05
    return 0.7 if character.isupper() else 0.58


def shortened(text: str, room_px: float, size_px: float = FONT_PX) -> str:
    """`text` as it is, or cut with "…" so that it fits."""
    text = one_line(text, 400)
    if text_width(text, size_px) <= room_px:
        return text
    while text and text_width(text + "…", size_px) > room_px:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


class Canvas:
    """One picture `width` units wide and as high as it becomes. `key` tells its patterns from those of others."""

    def __init__(self, width: float, title: str, description: str, key: str) -> None:
        self.width = width
        self.root = Element("svg", {"role": "img", "class": "plot"})
        SubElement(self.root, "title").text = one_line(title, 400)
        SubElement(self.root, "desc").text = one_line(description, 2000)
        self._defs = SubElement(self.root, "defs")
        self._key = key
        self._patterns: dict[tuple[str, ...], str] = {}

    def finish(self, height: float) -> Element:
        """The picture, this high."""
        self.root.set("viewBox", f"0 0 {_n(self.width)} {_n(height)}")
        if not len(self._defs):
            self.root.remove(self._defs)
        return self.root

    def text(  # noqa: PLR0917 - a place and a text
        self, x: float, y: float, text: str, kind: str = "", anchor: str = "start", fill: str = ""
    ) -> None:
        """One line, its baseline at y. `kind`: classes of the stylesheet ("dim", "strong", "halo")."""
        element = SubElement(self.root, "text", {"x": _n(x), "y": _n(y)})
        if kind:
            element.set("class", kind)
        if anchor != "start":
            element.set("text-anchor", anchor)
        if fill:
            element.set("style", f"fill:{fill}")
        element.text = one_line(text, 400)

    def line(self, x0: float, y0: float, x1: float, y1: float, kind: str = "grid") -> None:
        """A straight line; `kind` is a class of the stylesheet."""
        places = {"x1": _n(x0), "y1": _n(y0), "x2": _n(x1), "y2": _n(y1), "class": kind}
        SubElement(self.root, "line", places)

    def bar(  # noqa: PLR0917 - a rectangle
        self, x: float, y: float, width: float, height: float, colors: Sequence[str], tip: str = ""
    ) -> None:
        """A rectangle in one colour, striped in several, hatched in none; `tip` is told when pointed at."""
        places = {"x": _n(x), "y": _n(y), "width": _n(max(width, 0.0)), "height": _n(height)}
        element = SubElement(self.root, "rect", places | {"style": f"fill:{self.fill(colors)}"})
        if not colors:
            element.set("class", "hatched")
        if tip:
            SubElement(element, "title").text = one_line(tip, 400)

    def fill(self, colors: Sequence[str]) -> str:
        """What to fill with: a colour, or a pattern made of several or of none."""
        if len(colors) == 1:
            return f"var(--c-{colors[0]})"
        known = self._patterns.get(tuple(colors))
        if known is None:
            known = self._patterns[tuple(colors)] = f"{self._key}-{len(self._patterns)}"
            self._add_pattern(known, colors)
        return f"url(#{known})"

    def _add_pattern(self, name: str, colors: Sequence[str]) -> None:
        stripe = 6.0
        across = stripe * len(colors) if colors else 6.0
        pattern = SubElement(
            self._defs,
            "pattern",
            {
                "id": name,
                "width": _n(across),
                "height": _n(across),
                "patternUnits": "userSpaceOnUse",
                "patternTransform": "rotate(45)",
            },
        )
        for place, color in enumerate(colors):
            size = {"x": _n(place * stripe), "y": "0", "width": _n(stripe), "height": _n(across)}
            SubElement(pattern, "rect", size | {"style": f"fill:var(--c-{color})"})
        if not colors:
            SubElement(pattern, "rect", {"width": "1.2", "height": "6", "style": "fill:var(--text-dim)"})

    def path(self, points: Sequence[tuple[float, float]], color: str, is_dashed: bool = False) -> None:
        """A line through points."""
        places = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        kind = "curve dashed" if is_dashed else "curve"
        SubElement(self.root, "polyline", {"points": places, "class": kind, "style": f"stroke:{color}"})

    def mark(self, x: float, y: float, shape: int, color: str, tip: str = "") -> None:
        """A point: disc, square, diamond or triangle by `shape`, so that colour is not all that tells series apart."""
        size = 4.0
        if shape % 4 == 0:
            element = SubElement(self.root, "circle", {"cx": _n(x), "cy": _n(y), "r": _n(size)})
        else:
            corners = (
                ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
                ((0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)),
                ((0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
            )[shape % 4 - 1]
            places = " ".join(f"{_n(x + size * dx)},{_n(y + size * dy)}" for dx, dy in corners)
            element = SubElement(self.root, "polygon", {"points": places})
        element.set("class", "mark")
        element.set("style", f"fill:{color}")
        if tip:
            SubElement(element, "title").text = one_line(tip, 400)

    def whisker(self, low: float, high: float, across: float, *, is_upright: bool = False) -> None:
        """An interval with ends from `low` to `high`, at `across` on the other axis."""
        end = 3.0
        lines = [(low, across, high, across), (low, across - end, low, across + end)]
        lines.append((high, across - end, high, across + end))
        # First in the colour of the ground, somewhat wider: a bar may be as dark as the ink.
        for kind in ("under", "whisker"):
            for x0, y0, x1, y1 in lines:
                self.line(*((y0, x0, y1, x1) if is_upright else (x0, y0, x1, y1)), kind=kind)


def _n(value: float) -> str:
    """A coordinate, to a tenth of a unit."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text
