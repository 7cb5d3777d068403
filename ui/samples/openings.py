"""What files and folders hold and what is to be opened of them together. It uses no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evprof.core.errors import UserError
from evprof.core.sample import Sample
from evprof.session.opening import is_session

MOST_LOOKED_AT = 200
"""Paths of one drop that are looked at."""

MOST_LISTED = 200
"""Samples of a list that are listed; more are a suite's."""

_KINDS = ("events", "video", "sequence", "manifest", "session", "legacy", "trace")
"""What the window opens, in the words of `evprof.loaders.probe`."""


@dataclass(frozen=True)
class OpeningPath:
    """One path. `kind` is one of probe's, "" where nothing can be opened: `problem` says why, else what to know.

    `tone` is how the problem is meant: "bad", "warn" or "info".
    """

    path: str
    kind: str = ""
    samples: tuple[Sample, ...] = ()
    problem: str = ""
    tone: str = "bad"


@dataclass(frozen=True)
class Opening:
    """What comes of several paths. `half` is a single recording or video, which may complete what is open.

    `problems` are sentences, each with its tone.
    """

    samples: tuple[Sample, ...] = ()
    half: OpeningPath | None = None
    sessions: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    found: tuple[OpeningPath, ...] = ()


def look_at(path: str) -> OpeningPath:
    """What a path holds; reads as little as that takes, and of a list its first samples."""
    if is_session(Path(path)):
        return OpeningPath(path, "session")
    # Imported here: every other kind of file has its reader, and they take a quarter of a second.
    from evprof.loaders.probe import probe

    try:
        kind = probe(path)
        if kind == "sequence":
            return _sequence(path)
        if kind == "manifest":
            samples, problem = listed_samples(path)
            return OpeningPath(path, kind, tuple(samples), problem, "warn")
    except UserError as error:
        # The list of all that can be opened is for a terminal; the window's own dialogs and help show it.
        sentence, _, accepted = error.sentence.partition("; accepted are ")
        return OpeningPath(path, problem=f"{sentence}." if accepted else sentence)
    if kind not in _KINDS:
        sentence = f"{path} is a {kind}; the window opens events, videos, sequences, lists of samples, sessions, torch "
        return OpeningPath(path, problem=f"{sentence}traces and result files.")
    return OpeningPath(path, kind)


def listed_samples(path: str) -> tuple[list[Sample], str]:
    """The first samples of a list, and its problems in one sentence. Raises UserError without samples."""
    from evprof.loaders.manifests.manifest import cut_sentence, read_manifest

    manifest = read_manifest(path, limit=MOST_LISTED)
    samples, problems = list(manifest.samples), list(manifest.problems)
    if not samples:
        raise UserError(" ".join([f"{path}: no sample of the list can be used.", *problems[:1]]))
    if not problems:
        return samples, ""
    cut = cut_sentence(manifest.rows)
    more = f" {len(problems) - 1:,} more to know: evprof inspect tells all." if len(problems) > 1 else ""
    return samples, f"{Path(path).name}: {cut if cut in problems else problems[0]}{more}"


def _sequence(path: str) -> OpeningPath:
    """Opens both halves to see how their clocks relate."""
    from evprof.loaders.sequences.sequence import open_sequence

    sequence = open_sequence(path)
    told = [problem.replace(" (--video-offset-ms tells otherwise)", "") for problem in sequence.clock.problems]
    sentence = f"{sequence.name}: {' '.join(told)}" if told else ""
    is_certain = sequence.clock.is_exact or sequence.video_path is None
    return OpeningPath(path, "sequence", (sequence.sample(),), sentence, "info" if is_certain else "warn")


def opening_of(found: Sequence[OpeningPath]) -> Opening:
    """Puts together what belongs together: a recording and a video beside each other are one sample."""
    events = [entry for entry in found if entry.kind == "events"]
    videos = [entry for entry in found if entry.kind == "video"]
    samples = [sample for entry in found if entry.kind in ("sequence", "manifest") for sample in entry.samples]
    half = None
    if len(events) + len(videos) == 1 and not samples:
        half = (events or videos)[0]
    else:
        samples += _pairs(events, videos)
    return Opening(
        tuple(samples),
        half,
        tuple(entry.path for entry in found if entry.kind == "session"),
        tuple(entry.path for entry in found if entry.kind == "legacy"),
        tuple(entry.path for entry in found if entry.kind == "trace"),
        tuple((entry.problem, entry.tone) for entry in found if entry.problem),
        tuple(found),
    )


def _pairs(events: Sequence[OpeningPath], videos: Sequence[OpeningPath]) -> list[Sample]:
    """One of each belong together; of several, those of one name. The rest stay by themselves."""
    if len(events) == len(videos) == 1:
        return [Sample(events[0].path, videos[0].path)]
    left = {_stem(entry): entry for entry in reversed(videos)}
    made = []
    for entry in events:
        video = left.pop(_stem(entry), None)
        made.append(Sample(entry.path, None if video is None else video.path))
    paired = {sample.video_path for sample in made}
    return [*made, *(Sample(None, entry.path) for entry in videos if entry.path not in paired)]


def _stem(entry: OpeningPath) -> str:
    return Path(entry.path).name.split(".")[0].lower()
