"""The scrubber under both inputs: one position in sensor time, the part to run, playing and its speed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from ui.players.clip_range import PRESETS_US, ClipRange, duration_words
from ui.players.play_clock import PlayClock
from ui.players.scrub_track import ScrubTrack
from ui.style.icons import SIZE, icon
from ui.style.theme import GRID, ThemeHolder
from ui.widgets.boxes import beside, in_role
from ui.widgets.elided import elided_text, literal
from ui.widgets.label import Label

_RATE_TEXTS = {1.0: "1×", 0.25: "¼×", 0.1: "⅒×"}
_CLIP_PX = 132


class Scrubber(QWidget):
    """Play button, track, time, part to run, and speed.

    Signals:
        clip_changed(object): the person chose another part of the sample; a ClipRange.
        cut_asked(int): the sample is to be cut into clips of this length in µs.
    """

    clip_changed = Signal(object)
    cut_asked = Signal(int)

    def __init__(self, themes: ThemeHolder, clock: PlayClock, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._themes = themes
        self._clock = clock
        self._obstacle = ""
        self.track = ScrubTrack(themes, clock)
        self.track.clip_changed.connect(self.clip_changed)
        self._play = _quiet_button("Play or pause both inputs")
        self._play.clicked.connect(self._toggle)
        self._time = in_role(Label(), "small")
        self._time.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._time.setFixedWidth(104)
        self._make_clip_button()
        self._rate = _quiet_button("Playing speed")
        self._rate.setFixedWidth(36)
        self._rate.clicked.connect(clock.next_rate)
        beside(self._play, self.track, self._time, self._rate, self.clip_button, on=self, spacing=GRID)
        clock.position_changed.connect(self._show_time)
        clock.changed.connect(self._show_state)
        themes.changed.connect(self._show_state)
        self.show_clip(ClipRange(), "Open a sample first.")

    def _make_clip_button(self) -> None:
        self.clip_button = _quiet_button("Which part the next run takes")
        self.clip_button.setFixedWidth(_CLIP_PX)
        self.clip_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.clip_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self.clip_button)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._fill_menu)
        self.clip_button.setMenu(self._menu)

    @property
    def clip(self) -> ClipRange:
        """The part on show."""
        return self.track.clip

    @property
    def obstacle(self) -> str:
        """Why no part can be chosen now."""
        return self._obstacle

    def show_clip(self, clip: ClipRange, obstacle: str = "") -> None:
        """The part that the next run takes; `obstacle` says why it cannot be changed here, empty when it can."""
        self._obstacle = obstacle
        self.track.show_clip(clip, is_editable=not obstacle)
        self._clock.set_part(None if clip.is_all else (clip.begin_us, clip.end_us))
        self._show_state()

    def take(self, length_us: int | None) -> None:
        """So much from the position on; None: up to the end."""
        self.clip_changed.emit(self.clip.from_here(self._clock.position_us, length_us))

    def _fill_menu(self) -> None:
        menu, whole = self._menu, self.clip.whole_us
        menu.clear()
        for length_us in PRESETS_US:
            action = menu.addAction(f"{duration_words(length_us)} from here", partial(self.take, length_us))
            action.setEnabled(not self._obstacle and length_us < whole)
        rest = menu.addAction("From here to the end", partial(self.take, None))
        rest.setEnabled(not self._obstacle and 0 < self._clock.position_us < whole)
        menu.addSeparator()
        whole_action = menu.addAction("All of it", lambda: self.clip_changed.emit(self.clip.all()))
        whole_action.setEnabled(not self._obstacle and not self.clip.is_all)
        menu.addSeparator()
        cut = menu.addMenu("Cut into clips of")
        for length_us in PRESETS_US:
            action = cut.addAction(duration_words(length_us), self._cutter(length_us))
            action.setEnabled(2 * length_us <= whole)
        cut.setEnabled(not self._obstacle and whole >= 2 * PRESETS_US[0])

    def _cutter(self, length_us: int) -> Callable[[], None]:
        return lambda: self.cut_asked.emit(length_us)

    def _toggle(self) -> None:
        self._clock.set_playing(not self._clock.is_playing)

    def _show_state(self) -> None:
        theme = self._themes.theme
        self._play.setIcon(icon("pause" if self._clock.is_playing else "play", theme))
        self._play.setEnabled(self._clock.duration_us > 0 and not self._clock.is_suspended)
        self._play.setToolTip("Paused while a run is measured" if self._clock.is_suspended else "Play or pause (Space)")
        self._rate.setText(_RATE_TEXTS[self._clock.rate])
        self._show_clip_button()
        self._show_time()

    def _show_clip_button(self) -> None:
        theme, clip = self._themes.theme, self.clip
        is_chosen = not clip.is_all and not self._obstacle
        self.clip_button.setIcon(icon("clip", theme, theme.accent if is_chosen else theme.text_dim))
        metrics = QFontMetrics(self.clip_button.font())
        words = " whole sample" if clip.is_all else f" {clip.words}"
        self.clip_button.setText(
            literal(elided_text(metrics, words, Qt.TextElideMode.ElideRight, _CLIP_PX - SIZE - 2 * GRID))
        )
        said = f"The next run takes {clip.words}." if not self._obstacle else self._obstacle
        self.clip_button.setToolTip(
            f"{said}\nChoose a part, or cut the sample into clips." if not self._obstacle else said
        )

    def _show_time(self) -> None:
        if not self._clock.duration_us:
            self._time.setText("")
            return
        place, stop = self._clock.position_us, self._clock.stop_us
        if stop < 1_000_000:
            self._time.setText(f"{place / 1000:.1f} / {stop / 1000:.1f} ms")
        else:
            self._time.setText(f"{place / 1_000_000:.2f} / {stop / 1_000_000:.2f} s")


def _quiet_button(tip: str) -> QToolButton:
    button = in_role(QToolButton(), "quiet")
    button.setToolTip(tip)
    button.setAccessibleName(tip)
    button.setFixedHeight(24)
    button.setIconSize(QSize(SIZE, SIZE))
    button.setStyleSheet("QToolButton { padding: 0 4px; min-height: 0; }")
    return button
