"""What file dialogs offer: which suffixes recordings and videos usually have. File types are detected by content."""

from __future__ import annotations

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
