"""Samples and the parts of them that are run: whose clip is on show, and what it becomes.

It knows no widget and reads no file.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path

from evprof.core.sample import Sample, clip_name
from evprof.loaders.pictures.frame_folder import is_frame_set
from ui.players.clip_range import ClipRange
from ui.run_facts.run_text import input_name


def files_of(sample: Sample) -> Hashable:
    """What tells apart which recordings are shown, and how they lie on one clock."""
    return (
        sample.events_path,
        sample.rectify_path,
        sample.video_path,
        sample.video_times_path,
        sample.video_offset_us,
    )


def identity(sample: Sample) -> Hashable:
    """What tells samples of a list apart: files and clip; without files, as in an import, the name."""
    has_files = sample.events_path is not None or sample.video_path is not None
    return (files_of(sample), sample.start_us, sample.duration_us, "" if has_files else sample.name)


def sample_name(sample: Sample) -> str:
    paths = [path for path in (sample.events_path, sample.video_path) if path]
    return sample.name or " + ".join(input_name(path) for path in paths)


def clip_of(sample: Sample, whole_us: int) -> ClipRange:
    """A sample's part of what lasts `whole_us`."""
    return ClipRange(whole_us, sample.start_us, sample.duration_us)


def with_clip(sample: Sample, clip: ClipRange) -> Sample:
    """The same sample with another part of it; one that was called after its part is called after the new one."""
    name = base = sample.whole_name
    if base != sample.name and not clip.is_all:
        name = clip_name(base, clip.begin_us)
    return replace(sample, name=name, start_us=clip.start_us, duration_us=clip.length_us)


def obstacle(shown: Sample | None, following: Sample, whole_us: int) -> str:
    """Why no part of what is on show can be chosen for the next run; empty when it can."""
    if shown is None or (following.events_path is None and following.video_path is None):
        return "Open a sample first."
    if files_of(shown) != files_of(following):
        return "This run used other files than the open sample; choose its sample in the list."
    if has_ready_frames(following):
        return "Event frames that were drawn elsewhere carry no times; all of them are taken."
    if whole_us <= 0:
        return "It is not known yet how long the sample is."
    return ""


def has_ready_frames(sample: Sample) -> bool:
    """Whether the events are pictures already: then nothing tells when anything happened."""
    path = sample.events_path
    return path is not None and (Path(path).is_dir() or is_frame_set(path))
