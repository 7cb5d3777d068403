"""Wrapped text that grows at its end: blocks of finished lines, of which only the last is laid out again.

Greedy line breaking never changes a line once the next one has begun, so earlier blocks stay valid while text streams.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QPointF
from PySide6.QtGui import QFont, QTextLayout, QTextLine, QTextOption

CHUNK = 800
"""Characters laid out at once."""

Formats = Callable[[int, int], list[QTextLayout.FormatRange]]
"""Formats of the characters start…stop-1 of the whole text, their positions relative to `start`."""


@dataclass
class TextBlock:
    """Lines of one layout: characters start…stop-1 of the whole text from `top` px on, `height` px high."""

    start: int
    stop: int
    layout: QTextLayout
    lines: int
    top: float
    height: float

    def line(self, index: int) -> QTextLine:
        """The line at `index`."""
        return self.layout.lineAt(index)


class TextBlocks:
    """The laid-out text. `width` and `line_height` in logical px."""

    def __init__(self, formats: Formats) -> None:
        self.blocks: list[TextBlock] = []
        self.text = ""
        self._formats = formats
        self._font = QFont()
        self._width = 100.0
        self._line_height = 20.0

    @property
    def height(self) -> float:
        """Height of everything in px."""
        return self.blocks[-1].top + self.blocks[-1].height if self.blocks else 0.0

    def set_geometry(self, font: QFont, width: float, line_height: float) -> None:
        """Lays everything out again for another font or width."""
        self._font, self._width, self._line_height = font, max(24.0, width), line_height
        self.blocks.clear()
        self._lay_out(0)

    def change(self, start: int, tail: str) -> None:
        """Replaces everything from character `start` on."""
        self.text = self.text[:start] + tail
        # A word that the change makes shorter may move up a line: the block before it is laid out again as well.
        keep = max(0, bisect_right([block.start for block in self.blocks], start) - 1)
        while keep and self.blocks[keep].start == start:
            keep -= 1
        begin = self.blocks[keep].start if keep < len(self.blocks) else 0
        del self.blocks[keep:]
        self._lay_out(min(begin, len(self.text)))

    def block_at(self, y: float) -> TextBlock | None:
        """The block at a height, None beyond the text."""
        if not self.blocks or y < 0 or y >= self.height:
            return None
        return self.blocks[bisect_right([block.top for block in self.blocks], y) - 1]

    def blocks_between(self, top: float, bottom: float) -> list[TextBlock]:
        """Blocks that show between two heights."""
        return [block for block in self.blocks if block.top < bottom and block.top + block.height > top]

    def character_at(self, x: float, y: float, *, between: bool = False) -> int | None:
        """Index of the character at a point (or, `between`, of the nearest gap); None outside a line's text."""
        block = self.block_at(y)
        if block is None:
            if not between:
                return None
            return 0 if y < 0 else len(self.text)
        line = block.line(min(block.lines - 1, int((y - block.top) / self._line_height)))
        if between:
            return block.start + line.xToCursor(x)
        if not 0 <= x <= line.naturalTextWidth():
            return None
        return block.start + line.xToCursor(x, QTextLine.CursorPosition.CursorOnCharacter)

    def top_of(self, character: int) -> float:
        """Top of the line of a character, in px."""
        for block in reversed(self.blocks):
            if block.start <= character:
                line = block.layout.lineForTextPosition(min(character, block.stop) - block.start)
                return block.top + min(line.lineNumber(), block.lines - 1) * self._line_height
        return 0.0

    def _lay_out(self, start: int) -> None:
        chunk = CHUNK
        while start < len(self.text):
            newline = self.text.find("\n", start)
            paragraph_end = len(self.text) if newline < 0 else newline
            stop = min(start + chunk, paragraph_end)
            is_cut = stop < paragraph_end
            layout, lines, end = self._laid_out(start, stop, is_cut=is_cut)
            if is_cut and end == stop:
                # The last line may take more words: it begins the next block instead.
                if lines < 2:
                    chunk *= 2
                    continue
                end = start + layout.lineAt(lines - 1).textStart()
                layout, lines, end = self._laid_out(start, end, is_cut=False)
            stop = end
            top = self.height
            self.blocks.append(TextBlock(start, stop, layout, lines, top, lines * self._line_height))
            start = stop if is_cut else stop + 1
            chunk = CHUNK

    def _laid_out(self, start: int, stop: int, *, is_cut: bool) -> tuple[QTextLayout, int, int]:
        """The layout of these characters, its lines, and where they end: where the text is cut, a line or two early."""
        layout = QTextLayout(self.text[start:stop], self._font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.setFormats(self._formats(start, stop))
        layout.setCacheEnabled(True)
        layout.beginLayout()
        lines = 0
        while True:
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(self._width)
            line.setPosition(QPointF(0, lines * self._line_height + (self._line_height - line.height()) / 2))
            lines += 1
            end = start + line.textStart() + line.textLength()
            if is_cut and end < stop <= end + 2 * line.textLength():
                stop = end
                break
        layout.endLayout()
        return layout, max(1, lines), stop
