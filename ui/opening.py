"""Opens whatever a path holds: a session, an input, a list of samples, results of earlier scripts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evprof.core.errors import UserError
from evprof.loaders.probe import probe
from ui.manifest_opening import listed_samples

if TYPE_CHECKING:
    from ui.main_window import MainWindow


def open_paths(window: MainWindow, paths: Sequence[str], *, waits: bool) -> None:
    """Opens each; several files of results become one session. See `MainWindow.open_paths`."""
    results: list[Path] = []
    for path in paths:
        try:
            kind = probe(path)
            if kind == "legacy":
                results.append(Path(path))
            else:
                _open(window, kind, path, waits=waits)
        except UserError as error:
            if waits:
                raise
            window.messages.post(error.sentence)
    if results:
        window.results.take(results, waits=waits)


def _open(window: MainWindow, kind: str, path: str, *, waits: bool) -> None:
    match kind:
        case "session" if waits:
            window.session.read(Path(path))
        case "session":
            window.session.open(Path(path))
        case "events":
            window.toolbar.open_events(path)
        case "video":
            window.toolbar.open_video(path)
        case "manifest":
            listed = listed_samples(path, window.messages.post)
            window.samples.add_all(listed)
            window.show_sample(listed[0])
        case _:
            raise UserError(
                f"{path} is a {kind}; the window opens events, videos, lists of samples, sessions and result files."
            )
