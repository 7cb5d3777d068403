"""Stage load: its parts, and what it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.measuring.timing import StageClock
from engines.stages.reading import read_events, read_video
from evprof.core.errors import UserError
from evprof.core.records import SpanRecord
from evprof.core.sample import Sample
from evprof.loaders.bundled import bundled_sample
from run_logs import saved_runs


def load(sink: Any, kind: str, sample: Sample) -> tuple[Any, list[str]]:
    """What stage load gives, and the names of its parts."""
    sink.records.clear()
    clock = StageClock(sink, 1)
    with clock.stage("load", "target"):
        found = read_events(sample, None, clock) if kind == "events" else read_video(sample, 4, clock)
    names = [record.name for record in sink.of(SpanRecord) if record.phase == 0]
    assert names.pop(0) == "load"
    return found, names


def test_events_are_opened_and_read(sink: Any) -> None:
    sample = bundled_sample()
    found, parts = load(sink, "events", sample)
    assert parts == ["open", "read"]
    assert found.loading.events == len(found.events)
    assert found.loading.bytes_read == Path(str(sample.events_path)).stat().st_size
    assert found.loading.decoder == "npy"
    assert found.loading.frames is None


def test_a_clip_counts_only_its_events(sink: Any) -> None:
    sample = bundled_sample()
    whole, _ = load(sink, "events", sample)
    clip = Sample(sample.events_path, start_us=10_000, duration_us=5_000)
    found, _ = load(sink, "events", clip)
    zero = int(whole.events.t_us.min())
    expected = (whole.events.t_us >= zero + 10_000) & (whole.events.t_us < zero + 15_000)
    assert found.loading.events == int(expected.sum())
    assert np.array_equal(found.events.x, whole.events.x[expected])
    with pytest.raises(UserError, match=r"no event lies in 5000\.00 s to 5000\.05 s"):
        load(sink, "events", Sample(sample.events_path, start_us=5_000_000_000, duration_us=50_000))


def test_a_video_is_opened_demuxed_decoded_and_converted(sink: Any) -> None:
    found, parts = load(sink, "video", bundled_sample())
    assert parts[:4] == ["open", "demux", "decode", "colour"]
    assert set(parts) == {"open", "demux", "decode", "colour"}
    assert (found.loading.frames, found.loading.decoder) == (4, "pyav")
    assert found.loading.bytes_read > 0


def test_a_recording_cut_short_is_read_as_far_as_it_goes_and_the_run_says_so(engine: Any, tmp_path: Path) -> None:
    import threading

    from evprof.core.events import EventArray
    from evprof.core.recording import RecordLog
    from evprof.core.request import RunRequest
    from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
    from evprof.loaders.writers.raw import write_evt2

    count = 5000
    t = np.arange(count, dtype=np.int64) * 10
    places = (np.arange(count) % 30).astype(np.uint16)
    events = EventArray(places, places, t, (t % 2).astype(np.uint8))
    path = tmp_path / "cut.raw"
    write_evt2(path, [events], width=64, height=64)
    path.write_bytes(path.read_bytes()[:-3])
    recording = RecordLog()
    settings = GenerationSettings(max_new_tokens=2)
    engine.run(
        RunRequest("draft", Sample(str(path)), ModelChoice("tiny-draft"), None, settings),
        recording,
        threading.Event(),
    )
    (run,) = saved_runs(recording)
    assert run.info.status == "finished"
    assert any("ends in the middle of a word" in warning for warning in run.info.warnings)
    assert run.info.loading["draft"].decoder == "evt2"
    assert run.info.loading["draft"].events in (count - 1, count)
