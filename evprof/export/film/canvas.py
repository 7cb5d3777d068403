"""Draws the pictures of a film: two columns, each with scene, stages and words, above one clock."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from evprof.core.records import ORIGIN_ACCEPTED, ORIGIN_BONUS
from evprof.core.rows.span import Span
from evprof.core.run_log import RunLog
from evprof.core.safe_text import one_line
from evprof.core.units import count_text, ms_from_ns, ms_text
from evprof.export.film.words import CUT, PlacedText, laid_out, spoken, timed_tokens
from evprof.loaders.pictures.render import Picture
from evprof.view.colors import GROUND_DARK, STAGE_COLORS_DARK, ink_on
from evprof.view.columns import ShownModel
from evprof.view.labels import model_title

WIDTH, HEIGHT = 1280, 720
"""Of every picture, in px; even, as players want it."""

_MARGIN, _GAP = 32, 32
_HEAD_TOP, _SCENE_TOP, _SCENE_HEIGHT = 24, 64, 300
_STRIP_TOP, _STRIP_HEIGHT, _TEXT_TOP = 384, 22, 424
_FOOT_TOP = 664
_SIZES = (24, 20, 17, 14, 12)
"""Sizes of the answer's letters, in px: the first in which it fits."""

_LINE = 1.45


@cache
def font(size: int, weight: str = "Regular") -> ImageFont.FreeTypeFont:
    """The bundled sans."""
    import assets

    return ImageFont.truetype(str(Path(assets.__file__).parent / "fonts" / f"Inter-{weight}.ttf"), size)


Seen: TypeAlias = "tuple[Picture | None, str]"
"""What there is to see of a scene, and what it is."""


class _Answer(NamedTuple):
    """An answer in its place."""

    placed: list[PlacedText]
    size: int
    is_whole: bool


class ColumnCanvas:
    """One model of one run, on its part of the picture."""

    def __init__(self, shown: ShownModel, left: int, width: int) -> None:
        self.run, self.role = shown
        self._shown = shown
        self._left, self._width = left, width
        self._answer = self._laid_out()
        self._end_ns = _end_of(self.run)

    @property
    def zero_ns(self) -> int:
        """When its run began."""
        return self.run.info.start_ns or 0

    def _laid_out(self) -> _Answer:
        words = spoken(timed_tokens(self.run)) if self._shown.is_answer else []
        found = _Answer([], _SIZES[-1], True)
        for size in _SIZES:
            lines = int((_FOOT_TOP - 36 - _TEXT_TOP) / (size * _LINE))
            placed, is_whole = laid_out(words, self._width, lines, font(size).getlength)
            found = _Answer(placed, size, is_whole)
            if is_whole:
                break
        return found

    def paint_still(self, draw: ImageDraw.ImageDraw) -> None:
        """What never changes: whose column it is."""
        name = model_title(self.run, self.role)
        draw.text((self._left, _HEAD_TOP), name, font=font(22, "SemiBold"), fill=GROUND_DARK["text"])
        beside = self._left + font(22, "SemiBold").getlength(name) + 12
        told = f"run {self.run.run_id} · {self.role}"
        draw.text((beside, _HEAD_TOP + 6), told, font=font(15), fill=GROUND_DARK["text_dim"])

    def paint(self, image: Image.Image, draw: ImageDraw.ImageDraw, t_ns: int, last_ns: int, seen: Seen) -> None:
        """How it stands `t_ns` after its run began; the strip of stages ends at `last_ns`."""
        self._paint_scene(image, draw, *seen)
        now_ns = self.zero_ns + t_ns
        self._paint_stages(draw, now_ns, last_ns)
        if self._shown.is_answer:
            self._paint_words(draw, now_ns)
        else:
            count = sum(one.drafted for one in self.run.rounds if one.start_ns + one.draft_ns <= now_ns)
            draw.text((self._left, _TEXT_TOP), f"{count} tokens drafted", font=font(20), fill=GROUND_DARK["text_dim"])

    def _paint_scene(self, image: Image.Image, draw: ImageDraw.ImageDraw, scene: Picture | None, note: str) -> None:
        if scene is None:
            box = (self._left, _SCENE_TOP, self._left + self._width, _SCENE_TOP + _SCENE_HEIGHT)
            draw.rectangle(box, fill=GROUND_DARK["raised"])
            words = "no pictures were kept"
            place = self._left + 12, _SCENE_TOP + 12
            draw.text(place, words, font=font(15), fill=GROUND_DARK["text_dim"])
            return
        height, width, _ = scene.shape
        scale = min(self._width / width, _SCENE_HEIGHT / height)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        # Enlarged events keep their pixels.
        way = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BOX
        image.paste(Image.fromarray(np.ascontiguousarray(scene)).resize(size, way), (self._left, _SCENE_TOP))
        if note:
            place = self._left + size[0] + 10, _SCENE_TOP + _SCENE_HEIGHT - 20
            if place[0] + font(13).getlength(note) <= self._left + self._width:
                draw.text(place, note, font=font(13), fill=GROUND_DARK["text_dim"])

    def _paint_stages(self, draw: ImageDraw.ImageDraw, now_ns: int, last_ns: int) -> None:
        left, width, bottom = self._left, self._width, _STRIP_TOP + _STRIP_HEIGHT
        draw.rectangle((left, bottom + 1, left + width, bottom + 1), fill=GROUND_DARK["line"])
        scale = width / max(1, last_ns)
        for span in self.run.stages(self.role):
            begin, end = span.start_ns, self._end_ns if span.end_ns is None else span.end_ns
            if begin >= now_ns:
                continue
            x0, x1 = (left + (moment - self.zero_ns) * scale for moment in (begin, min(end, now_ns)))
            color = STAGE_COLORS_DARK[span.stage_name]
            draw.rectangle((x0, _STRIP_TOP, max(x0 + 1, x1 - 1), bottom), fill=color)
            text = _stage_text(span, end <= now_ns)
            if font(13, "Medium").getlength(text) + 10 < x1 - x0:
                draw.text((x0 + 5, _STRIP_TOP + 3), text, font=font(13, "Medium"), fill=ink_on(color))

    def _paint_words(self, draw: ImageDraw.ImageDraw, now_ns: int) -> None:
        placed, size, is_whole = self._answer
        line_px = size * _LINE
        known = 0
        for one in placed:
            if one.t_ns > now_ns:
                break
            known += 1
            place = self._left + one.left, _TEXT_TOP + one.line * line_px
            draw.text(place, one.text, font=font(size), fill=GROUND_DARK["text"])
            self._paint_origin(draw, one, place, size)
        if known == len(placed) and not is_whole and placed:
            last = placed[-1]
            place = self._left + min(last.left + last.width, self._width - 20), _TEXT_TOP + last.line * line_px
            draw.text(place, CUT, font=font(size), fill=GROUND_DARK["text_dim"])

    def _paint_origin(self, draw: ImageDraw.ImageDraw, one: PlacedText, place: tuple[float, float], size: int) -> None:
        """Accepted tokens are underlined, the target's own in a round dotted, as in the window."""
        begin = place[0] + (font(size).getlength(" ") if one.text.startswith(" ") else 0)
        end, y = place[0] + one.width, place[1] + size * 1.22
        if one.origin == ORIGIN_ACCEPTED:
            draw.line((begin, y, end, y), fill=GROUND_DARK["good"], width=2)
        elif one.origin == ORIGIN_BONUS:
            for x in range(round(begin), round(end), 5):
                draw.rectangle((x, y, x + 1, y + 1), fill=GROUND_DARK["warn"])

    def counts(self, t_ns: int) -> str:
        """How far the answer has come."""
        times = [token.t_ns - self.zero_ns for token in timed_tokens(self.run)] if self._shown.is_answer else []
        known = sum(time <= t_ns for time in times)
        if not known:
            return ""
        first = f"first after {ms_text(ms_from_ns(times[0]))}"
        return f"{count_text(known, 'token')} · {first}"


class FilmCanvas:
    """The whole picture."""

    def __init__(self, columns: Sequence[ShownModel], last_ns: int, clock_words: str) -> None:
        """`last_ns` is the last moment of the film, `clock_words` what is said of its speed."""
        count = len(columns)
        width = (WIDTH - 2 * _MARGIN - (count - 1) * _GAP) // count
        lefts = [_MARGIN + place * (width + _GAP) for place in range(count)]
        self.columns = [ColumnCanvas(shown, left, width) for shown, left in zip(columns, lefts, strict=True)]
        self._lefts = lefts
        self._last_ns = last_ns
        self._still = Image.new("RGB", (WIDTH, HEIGHT), GROUND_DARK["window"])
        draw = ImageDraw.Draw(self._still)
        for column in self.columns:
            column.paint_still(draw)
        draw.line((_MARGIN, _FOOT_TOP, WIDTH - _MARGIN, _FOOT_TOP), fill=GROUND_DARK["line"])
        if columns:
            name = one_line(columns[0].run.info.sample.name)
            words = " · ".join(filter(None, (name, clock_words)))
            left = WIDTH - _MARGIN - font(15).getlength(words)
            draw.text((left, _FOOT_TOP + 18), words, font=font(15), fill=GROUND_DARK["text_dim"])

    def picture(self, t_ns: int, scenes: Sequence[Seen]) -> Image.Image:
        """The picture of a moment after the runs' beginning."""
        image = self._still.copy()
        draw = ImageDraw.Draw(image)
        for column, left, seen in zip(self.columns, self._lefts, scenes, strict=True):
            column.paint(image, draw, t_ns, self._last_ns, seen)
            draw.text((left, _FOOT_TOP - 26), column.counts(t_ns), font=font(15), fill=GROUND_DARK["text_dim"])
        clock = f"{t_ns / 1e6:,.1f} ms"
        draw.text((_MARGIN, _FOOT_TOP + 12), clock, font=font(24, "SemiBold"), fill=GROUND_DARK["text"])
        share = min(1.0, t_ns / max(1, self._last_ns))
        draw.rectangle(
            (_MARGIN, _FOOT_TOP - 1, _MARGIN + share * (WIDTH - 2 * _MARGIN), _FOOT_TOP + 1), fill=GROUND_DARK["accent"]
        )
        return image


def _stage_text(span: Span, is_over: bool) -> str:
    took = span.duration_ns if is_over else None
    return span.name if took is None else f"{span.name} {ms_text(ms_from_ns(took))}"


def _end_of(run: RunLog) -> int:
    ends = [span.end_ns or span.start_ns for span in run.spans.values()]
    return max([run.info.end_ns or 0, *ends, *(token.t_ns for token in timed_tokens(run)[-1:])])
