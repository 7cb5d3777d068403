from __future__ import annotations

from typing import Any

import pytest

from evprof.core.run_info import ImportedFacts, RunInfo
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.settings import settings_from_json, settings_to_json
from evprof.core.vocabulary.switches import Switches


def test_a_run_of_ours_tells_every_setting() -> None:
    settings = GenerationSettings(frames=3, switches=Switches(visual_keep=0.5))
    info = RunInfo(1, 1, 0, "target", "target", settings, Sample("e.npy", "v.mp4", video_offset_us=1500))
    values = info.to_json()
    assert values["settings"] == settings.to_json()
    assert values["sample"] == info.sample.facts()
    assert "given" not in values
    assert RunInfo.from_json(values) == info
    assert info.given_settings == settings.flat()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"temperature": 0.6, "max_new_tokens": 512},
        {"event_frames": 1, "input": {"pooling": "none"}},
        {"frames": None, "switches": {"early_exit": None}, "speculation": {"drafter": "lookup"}},
    ],
)
def test_an_imported_run_tells_what_its_file_gave(given: dict[str, Any]) -> None:
    values = {
        "run_id": 1,
        "group_id": 1,
        "repeat": 0,
        "role": "target",
        "mode": "target",
        "settings": given,
        "sample": {"prompt": "?", "name": "a", "events_path": "a.npy", "video_path": None, "reference": None},
        "imported": ImportedFacts("f.json", "one-vs-eight", 3).to_json(),
    }
    info = RunInfo.from_json(values)
    again = info.to_json()
    assert (again["settings"], again["sample"]) == (given, values["sample"])
    assert info.sample.events_path == "a.npy"


def test_what_does_not_fit_or_is_unknown_stands_at_its_default() -> None:
    told = {
        "temperature": "warm",
        "gamma": True,
        "seed": 10**40,
        "top_k": 3,
        "newer": 1,
        "input": 7,
        "switches": {"cache": []},
    }
    settings, given = settings_from_json(told)
    assert settings == GenerationSettings(top_k=3)
    assert given == {"top_k"}
    assert settings_to_json(settings, given) == {"top_k": 3}
    assert settings_from_json("nothing") == (GenerationSettings(), frozenset())
