"""File dialogs that ask for inputs, with the usual suffixes. File types are detected by content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from evprof.core.sample import Sample
from evprof.loaders.bundled import assets_folder

EVENT_FAMILIES = (
    ("NumPy", ("npy", "npz")),
    ("HDF5 (DSEC, M3ED)", ("h5", "hdf5")),
    ("Prophesee", ("raw", "dat")),
    ("AEDAT", ("aedat4", "aedat")),
    ("Text", ("csv", "txt")),
    ("N-Caltech and N-MNIST", ("bin",)),
    ("rosbag", ("bag",)),
    ("Event Stream", ("es",)),
)
"""Suffixes of event recordings, by what people call their family."""

VIDEO_SUFFIXES = ("mp4", "avi", "mkv", "mov", "webm", "m4v", "mpg", "mpeg", "ts", "wmv", "flv", "ogv", "h264", "gif")

_ALL = "All files (*)"


def event_filters() -> str:
    """For a dialog that asks for event recordings: all of them first, then family by family."""
    everything = [suffix for _, suffixes in EVENT_FAMILIES for suffix in suffixes]
    families = [_filter(name, suffixes) for name, suffixes in EVENT_FAMILIES]
    return ";;".join([_filter("Event recordings", everything), *families, _ALL])


def video_filters() -> str:
    """For a dialog that asks for videos."""
    return ";;".join([_filter("Videos", VIDEO_SUFFIXES), _ALL])


def _filter(name: str, suffixes: tuple[str, ...] | list[str]) -> str:
    return f"{name} ({' '.join(f'*.{suffix}' for suffix in suffixes)})"


class InputDialogs:
    """Each begins where the open sample lies, unless that came with the program; nothing picked is an empty answer."""

    def __init__(self, parent: QWidget, sample: Callable[[], Sample]) -> None:
        self._parent = parent
        self._sample = sample

    def recordings(self) -> list[str]:
        """Event recordings."""
        return QFileDialog.getOpenFileNames(self._parent, "Open events", self._place(), event_filters())[0]

    def videos(self) -> list[str]:
        """Videos."""
        return QFileDialog.getOpenFileNames(self._parent, "Open video", self._place(), video_filters())[0]

    def folder(self, title: str) -> str:
        """A folder."""
        return QFileDialog.getExistingDirectory(self._parent, title, self._place())

    def _place(self) -> str:
        sample = self._sample()
        path = sample.events_path or sample.video_path
        if path is None or Path(path).is_relative_to(assets_folder()):
            return ""
        return str(Path(path).parent)
