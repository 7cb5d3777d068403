"""Files that are nothing, and files that run something in a careless reader."""

from __future__ import annotations

import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from evprof.core.sample import Sample


class Harm:
    """What a pickle does when it is opened by a careless reader."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._mark),)


def mark_of(folder: Path) -> Path:
    """A folder that exists only if something inside a file was run."""
    return folder / "was-run"


def bad_files(folder: Path, sample: Sample) -> Path:
    """The folder, filled; a few files are parts of the sample's."""
    import av

    folder.mkdir()
    assert sample.events_path is not None
    assert sample.video_path is not None
    events, video = Path(sample.events_path).read_bytes(), Path(sample.video_path).read_bytes()
    for name in ("empty.npy", "empty.mp4", "empty.evprof", "empty.npz"):
        (folder / name).touch()
    for name in ("text.npy", "text.mp4", "text.evprof", "text.bin"):
        (folder / name).write_text("Dear diary, " * 30)
    (folder / "cut.npy").write_bytes(events[: len(events) // 2])
    (folder / "cut.mp4").write_bytes(video[: len(video) // 2])
    (folder / "video.npy").write_bytes(video)
    (folder / "events.mp4").write_bytes(events)
    (folder / "harm.npy").write_bytes(events[:128] + pickle.dumps(Harm(mark_of(folder))))
    np.save(folder / "harm2.npy", np.array([Harm(mark_of(folder))], dtype=object), allow_pickle=True)
    (folder / "no-pictures").mkdir()
    (folder / "no-pictures" / "notes.txt").write_text("nothing to see")
    with closing(sqlite3.connect(folder / "other.evprof")) as other:
        other.execute("CREATE TABLE runs (run_id)")
        other.commit()
    with av.open(str(folder / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), dtype=np.float32), format="fltp", layout="mono")
        frame.rate = 8000
        container.mux([*stream.encode(frame), *stream.encode()])
    return folder
