"""How answers are drawn, chosen once for both columns and kept from one start to the next."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QSettings, Signal

_CONFIDENCE, _FOLDED, _UNMARKED = "text/confidence", "text/folded", "text/differences-unmarked"


class TextLook(QObject):
    """Whether a line under each token says how sure the model was, whether rejected tokens are folded away, and whether
    words that the other answer does not say have a ground.

    Signals:
        changed(): one of them was chosen.
    """

    changed = Signal()

    def __init__(self, settings: QSettings | None = None, parent: QObject | None = None) -> None:
        """`settings` None: nothing is remembered."""
        super().__init__(parent)
        self._settings = settings
        self._chosen: dict[str, bool] = {}

    @property
    def shows_confidence(self) -> bool:
        """Whether each token has a line as long as its probability."""
        return self._is(_CONFIDENCE)

    @property
    def folds_rejected(self) -> bool:
        """Whether a tick stands for what was rejected."""
        return self._is(_FOLDED)

    @property
    def marks_differences(self) -> bool:
        """Whether what the answers of A and B say otherwise stands out."""
        return not self._is(_UNMARKED)

    def toggle_differences(self) -> None:
        """Marks what differs, or leaves it plain."""
        self._toggle(_UNMARKED)

    def toggle_confidence(self) -> None:
        """Shows the lines or takes them away."""
        self._toggle(_CONFIDENCE)

    def toggle_rejected(self) -> None:
        """Folds rejected tokens or unfolds them."""
        self._toggle(_FOLDED)

    def deeds(self) -> dict[str, Callable[[], object]]:
        """What each action of the menu does."""
        return {
            "confidence": self.toggle_confidence,
            "fold_rejected": self.toggle_rejected,
            "mark_differences": self.toggle_differences,
        }

    def _is(self, key: str) -> bool:
        if key not in self._chosen:
            kept = self._settings is not None and self._settings.value(key, "") in (True, "true")
            self._chosen[key] = kept
        return self._chosen[key]

    def _toggle(self, key: str) -> None:
        self._chosen[key] = not self._is(key)
        if self._settings is not None:
            self._settings.setValue(key, self._chosen[key])
        self.changed.emit()
