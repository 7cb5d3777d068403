"""Work that nobody waits for, in turns of the event loop, so that the window can answer and paint in between."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, Signal

from ui.run_facts.pieces import Pieces
from ui.widgets.pace import Pace

PIECE_MS = 2
"""A turn takes no further piece after that."""

PAUSE_MS = 1


class Piecework(QObject):
    """One piece of work at a time; what is begun takes the place of what was not done yet.

    Signals:
        done(object): the result.
    """

    done = Signal(object)

    def __init__(self, parent: QObject, *, piece_ms: float = PIECE_MS) -> None:
        super().__init__(parent)
        self._piece_ms = piece_ms
        self._pieces: Pieces[object] | None = None
        self._next = Pace(PAUSE_MS, self._go_on, self, answers=True)

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be done."""
        return self._pieces is not None

    def begin(self, pieces: Pieces[object]) -> None:
        """Does this, from the next turn on."""
        self._pieces = pieces
        self._next.note()

    def forget(self) -> None:
        """Leaves undone what is not done yet."""
        self._pieces = None
        self._next.stop()

    def _go_on(self) -> None:
        self._next.begin()
        pieces, began_s = self._pieces, time.perf_counter()
        if pieces is None:
            return
        try:
            next(pieces)
            while 1000 * (time.perf_counter() - began_s) < self._piece_ms:
                next(pieces)
        except StopIteration as ended:
            self.forget()
            self.done.emit(ended.value)
        except BaseException:
            self.forget()
            raise
        else:
            self._next.note()
