"""A list of samples for `evprof inspect`: what it holds, as a document and for people to read in a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evprof.cli.terminal.console import Console
from evprof.cli.terminal.facts import facts_lines
from evprof.core.units import percent_text

_SHARES = {
    "with events": "with_events",
    "with video": "with_video",
    "with both": "with_both",
    "with a reference answer": "with_reference",
}


def describe_manifest(path: str) -> dict[str, Any]:
    """The `inspect` document of a list of samples. Raises UserError when it cannot be read."""
    from evprof.loaders.manifests.manifest import read_manifest

    found = read_manifest(Path(path))
    events = [sample.events_path is not None for sample in found.samples]
    video = [sample.video_path is not None for sample in found.samples]
    return {
        "schema_version": 1,
        "path": path,
        "kind": "manifest",
        "problems": list(found.problems),
        "format": found.kind,
        "rows": found.rows,
        "samples": len(found.samples),
        "with_events": sum(events),
        "with_video": sum(video),
        "with_both": sum(both[0] and both[1] for both in zip(events, video, strict=True)),
        "with_reference": sum(sample.reference is not None for sample in found.samples),
        "clips": sum(sample.is_clip for sample in found.samples),
        "prompts": len({sample.prompt for sample in found.samples}),
    }


def print_manifest(document: dict[str, Any], console: Console) -> None:
    """The document of a list of samples, problems last."""
    samples = document["samples"]
    shown = {"path": document["path"], "kind": document["kind"], "format": document["format"]}
    shown |= {"rows": f"{document['rows']:,}", "samples": f"{samples:,}"}
    shown |= {label: _share(document[key], samples) for label, key in _SHARES.items()}
    if document["clips"]:
        shown["clips"] = _share(document["clips"], samples)
    shown["different prompts"] = f"{document['prompts']:,}"
    for line in facts_lines(shown):
        console.print(line)
    if document["problems"]:
        console.print("problems:")
    for sentence in document["problems"]:
        console.wrapped(sentence, "  ", "    ")


def _share(count: int, samples: int) -> str:
    return f"{count:,} ({percent_text(count / samples)})" if 0 < count < samples else f"{count:,}"
