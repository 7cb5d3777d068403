"""Says what a path holds, by content and not by suffix; what is in it is told by `inspection`."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.files.whole_file import APPLICATION_ID_AT, SQLITE_MAGIC
from evprof.loaders.events.opening import format_of, read_events
from evprof.loaders.events.recording import HEAD_BYTES
from evprof.loaders.legacy.family import is_legacy
from evprof.loaders.manifests.manifest import is_manifest
from evprof.loaders.paths import first_bytes, opened_file
from evprof.loaders.pictures.frame_folder import frame_paths, is_frame_set
from evprof.loaders.pictures.png import is_event_frame, read_png
from evprof.loaders.sequences.folder_content import folder_content
from evprof.loaders.sequences.sequence import find_sequence, open_sequence
from evprof.loaders.videos.folder import picture_paths
from evprof.loaders.videos.opening import open_video

KINDS = ("events", "video", "sequence", "manifest", "checkpoint", "session", "trace", "legacy")


_ACCEPTED = "; accepted are {nearest}; `evprof inspect --help` names all kinds."
_ALL = (
    "event recordings, videos, folders of pictures, lists of samples, checkpoints, sessions, torch traces and results"
)
_NEAREST = {
    (".json", ".jsonl"): "lists of samples, torch traces (.pt.trace.json), and results of vLLM, SGLang and AIPerf",
    (".csv", ".txt", ".tsv"): "lists of samples with columns events and video, and events as lines of t x y p",
    (".h5", ".hdf5", ".bag", ".raw", ".dat", ".aedat", ".aedat4", ".bin", ".npy", ".npz"): "event recordings",
    (".pt", ".pth", ".safetensors", ".gguf"): "folders of a checkpoint or an adapter, with their config.json",
    (".db", ".sqlite"): "sessions (.evprof)",
    (".db3", ".mcap"): "ROS 1 bags; `rosbags-convert` makes one of a ROS 2 bag",
    (".png", ".jpg", ".jpeg"): "folders of such pictures",
}


def accepted(path: Path) -> str:
    """The end of a refusal: the kinds nearest to a path of this name."""
    suffix = path.suffix.lower()
    nearest = next((kinds for suffixes, kinds in _NEAREST.items() if suffix in suffixes), _ALL)
    return _ACCEPTED.format(nearest=nearest)


_VIDEO_SUFFIXES = frozenset({".avi", ".h264", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv"})


def probe(path: str | Path, *, session_id: int | None = None) -> str:
    """One of KINDS. `session_id` is the SQLite application_id a session must carry (None: any SQLite file is one).

    Raises UserError that says what is accepted when the path holds nothing of the kind.
    """
    found = Path(path)
    if found.is_dir():
        return _probe_folder(found)
    if is_frame_set(found):
        return _kind_of_picture(frame_paths(found)[0])
    start = first_bytes(path, HEAD_BYTES)
    if format_of(start) is not None:
        return "events"
    if start.startswith(SQLITE_MAGIC):
        if session_id is None or int.from_bytes(start[APPLICATION_ID_AT:][:4], "big") == session_id:
            return "session"
        raise UserError(f"{path}: is a SQLite database but no evprof session{accepted(found)}")
    return _text_kind(found, start) or _video_kind(found)


def _text_kind(path: Path, start: bytes) -> str | None:
    if _is_trace(path, start):
        return "trace"
    if is_legacy(path):
        return "legacy"
    return "manifest" if is_manifest(path) else None


def _video_kind(path: Path) -> str:
    try:
        with open_video(path):
            return "video"
    except UserError:
        # What a file calls itself decides nothing, but says which complaint is of use.
        if path.suffix.lower() in _VIDEO_SUFFIXES:
            raise
        if path.suffix.lower() in (".npy", ".npz"):
            read_events(path)
        raise UserError(f"{path}: is of no known kind{accepted(path)}") from None


def _probe_folder(folder: Path) -> str:
    if (folder / "config.json").is_file():
        return "checkpoint"
    if find_sequence(folder) is not None:
        return "sequence"
    try:
        paths = picture_paths(folder)
    except UserError:
        content = folder_content(folder)
        if content.events:
            open_sequence(folder)  # says which of them it cannot choose from
        if folder in content.picture_folders:
            raise
        if any(folder.glob("*.db3")) or any(folder.glob("*.mcap")):
            raise UserError(f"{folder}: is a ROS 2 bag{accepted(Path('bag.db3'))}") from None
        raise UserError(
            f"{folder}: the folder holds neither a config.json, nor an event recording, nor pictures{accepted(folder)}"
        ) from None
    return _kind_of_picture(paths[0])


def _kind_of_picture(path: Path) -> str:
    if path.suffix.lower() != ".png":
        return "video"
    return "events" if is_event_frame(read_png(path)) else "video"


def _is_trace(path: Path, start: bytes) -> bool:
    """Whether a JSON file, plain or gzipped, begins like a Kineto or Chrome trace."""
    head = start
    try:
        if start.startswith(b"\x1f\x8b"):
            with opened_file(path) as packed, gzip.open(packed) as file:
                head = file.read(65_536)
        elif start.lstrip()[:1] in (b"{", b"["):
            with opened_file(path) as plain:
                head = plain.read(65_536)
    except (UserError, OSError, EOFError, zlib.error):
        return False
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    return any(word in head for word in (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"ph"'))
