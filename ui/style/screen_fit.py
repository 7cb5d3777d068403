"""A window that fits its screen: on a small one, or at a large scale, its usual size would not."""

from __future__ import annotations

import os
from collections.abc import Callable

from PySide6.QtCore import QRect, QSettings, QSize
from PySide6.QtWidgets import QStyle, QWidget


def fit_to_screen(window: QWidget, available: QRect) -> None:
    """Makes the window, and the least size it can be given, no larger than `available`, and moves it inside."""
    window.setMinimumSize(window.minimumSize().boundedTo(available.size()))
    window.resize(window.size().boundedTo(available.size()))
    place = window.geometry()
    place.moveLeft(max(available.left(), min(place.left(), available.right() + 1 - place.width())))
    place.moveTop(max(available.top(), min(place.top(), available.bottom() + 1 - place.height())))
    window.setGeometry(place)


def room_on_screen(window: QWidget) -> QRect:
    """What the window's screen has for it, without the bar that a desktop puts above it."""
    bar = window.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight)
    room = window.screen().availableGeometry().adjusted(0, bar, 0, 0)
    return QRect(room.topLeft(), room.size().expandedTo(QSize(1, 1)))


def resize_in_room(dialog: QWidget, width: int, height: int) -> None:
    """Gives a window beside the main one its usual size, or what there is room for: on its screen, or where the main
    window is larger than that, over that one."""
    window, room = dialog.parentWidget(), room_on_screen(dialog).size()
    if window is not None:
        room = room.expandedTo(window.window().size())
    dialog.resize(QSize(width, height).boundedTo(room))


SCALES = (80, 90, 100, 110, 125, 150, 175, 200)
"""In %."""

USUAL = 100

_KEY = "window/scale"
_VARIABLE = "QT_SCALE_FACTOR"
_ANEW = "Start anew"


def kept_scale(settings: QSettings) -> int:
    """What was chosen last, in %."""
    try:
        found = int(str(settings.value(_KEY, USUAL)))
    except ValueError:
        return USUAL
    return found if found in SCALES else USUAL


def apply_scale(settings: QSettings) -> None:
    """Has Qt take it; to be called before the application is made. What the environment says goes first."""
    scale = kept_scale(settings)
    if scale != USUAL and _VARIABLE not in os.environ:
        os.environ[_VARIABLE] = f"{scale / 100:g}"


def forget_scale() -> None:
    """A program that is started from here finds out for itself."""
    os.environ.pop(_VARIABLE, None)


class UiScale:
    """Changes it by one step at a time. `post` tells, with what starts the program anew; `withdraw` takes back what
    offered this before.
    """

    def __init__(
        self,
        settings: QSettings | None,
        post: Callable[..., object],
        withdraw: Callable[[str], object],
        restart: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._post = post
        self._withdraw = withdraw
        self._restart = restart
        self.percent = self._drawn = USUAL if settings is None else kept_scale(settings)

    def larger(self) -> None:
        self._take(next((scale for scale in SCALES if scale > self.percent), SCALES[-1]))

    def smaller(self) -> None:
        self._take(next((scale for scale in reversed(SCALES) if scale < self.percent), SCALES[0]))

    def usual(self) -> None:
        self._take(USUAL)

    def _take(self, percent: int) -> None:
        range_words = f"; {SCALES[0]} to {SCALES[-1]} % can be had" if percent == self.percent else ""
        if self._settings is not None:
            self._settings.setValue(_KEY, percent)
        self.percent = percent
        self._withdraw(_ANEW)
        if percent == self._drawn:
            self._post(f"Everything is drawn at {percent} %{range_words}.", "info")
        else:
            sentence = f"From the next start on everything is drawn at {percent} %{range_words}."
            self._post(sentence, "info", _ANEW, self._restart)
