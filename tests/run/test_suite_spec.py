"""What a grid says, and what of it is refused."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from described_adapter import describe_adapter
from evprof.core.errors import UserError
from evprof.run.suites.cell import flat_values
from evprof.run.suites.ready import READY
from evprof.run.suites.spec import PART, SuiteSpec, parse_suite

ROOT = Path(__file__).resolve().parents[2]


def family_of(name: str) -> str | None:
    return None if name == "unknown" else "eventgpt" if "eventgpt" in name else "video_llava"


def parsed(raw: dict[str, Any], **overrides: Any) -> SuiteSpec:
    return parse_suite(raw, "grid", overrides=overrides, family_of=family_of)


def labels(raw: dict[str, Any], **overrides: Any) -> list[str]:
    return [cell.label for cell in parsed(raw, **overrides).cells]


def test_labels_hold_what_varies_and_nothing_else() -> None:
    assert labels({"settings": {"mode": "target", "max_new_tokens": 9}, "axes": {"frames": [1, 8]}}) == [
        "1 frame",
        "8 frames",
    ]
    assert labels({"axes": {"mode": ["target", "speculative"], "gamma": [2, 3]}}) == [
        "target",
        "speculative · γ 2",
        "speculative · γ 3",
    ]


def test_what_has_no_effect_is_not_measured_twice() -> None:
    spec = parsed({"settings": {"mode": "draft"}, "axes": {"frames": [1, 8], "gamma": [1, 2], "event_frames": [1, 5]}})
    assert [cell.label for cell in spec.cells] == ["1 event frame", "5 event frames"]
    assert "8 combinations are 2" in spec.notes[0]


def test_cells_that_differ_in_one_models_dtype_have_labels_of_their_own() -> None:
    found = labels({"cells": [{"dtype": "float32"}, {"draft_dtype": "bfloat16", "target_dtype": "float16"}]})
    assert len(set(found)) == 2
    assert "(2)" not in "".join(found)


def test_pairs_of_models_are_an_axis() -> None:
    spec = parsed({"axes": {"models": [{"draft": "eventgpt-a", "target": "b", "target_dtype": "float16"}, {}]}})
    first = spec.cells[0]
    assert first.draft
    assert first.target
    assert (first.draft.name, first.target.name, first.draft.dtype, first.target.dtype) == (
        "eventgpt-a",
        "b",
        "auto",
        "float16",
    )


def test_the_command_line_takes_an_axis_place() -> None:
    assert labels({"axes": {"dtype": ["bfloat16", "float16"], "frames": [1, 2]}}, dtype="float32") == [
        "1 frame",
        "2 frames",
    ]


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        ({"axs": {}}, "did you mean axes"),
        ({"settings": {"max_new_token": 3}}, "did you mean max_new_tokens"),
        ({"axes": {"gama": [1]}}, "did you mean gamma"),
        ({"axes": {"gamma": 3}}, "must be a list"),
        ({"axes": {"gamma": ["three"]}}, "gamma must be a whole number"),
        ({"axes": {"gamma": [True]}}, "gamma must be a whole number"),
        ({"settings": {"ignore_eos": "yes"}}, "true or false"),
        ({"settings": {"mode": "sideways"}}, "mode must be one of"),
        ({"settings": {"cache": "fast"}}, "cache must be one of"),
        ({"settings": {"gamma": 0, "mode": "speculative"}}, "--gamma must be at least 1"),
        ({"settings": {"mode": "kv-adapted"}}, "needs a trained map"),
        ({"settings": {"prompt": " "}}, "not empty"),
        ({"axes": {"models": ["tiny"]}}, "list of tables"),
        ({"cells": [{"label": "reference"}]}, "label of its own"),
        ({"cells": [{"label": "a", "mode": "target"}, {"label": "a", "mode": "draft"}]}, "label of its own"),
        ({"repeat": 0}, "repeat must be a whole number of at least 1"),
        ({"axes": {"seed": list(range(40)), "top_k": list(range(40))}}, "may have 1000"),
        ({"settings": 3}, "must be a table"),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence(raw: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=re.escape(sentence)) as caught:
        parsed(raw)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.sentence


@pytest.mark.parametrize("name", READY)
def test_every_ready_made_suite_is_a_grid(name: str) -> None:
    spec = parse_suite(READY[name], name, family_of=family_of)
    found = [cell.label for cell in spec.cells]
    assert len(set(found)) == len(found)
    # Cells that a suite, or a part of one, lists are all different measurements.
    assert not spec.notes
    parts = [label.split(PART)[0] if "parts" in READY[name] else "" for label in found]
    cells = {(part, repr(flat_values(cell))) for part, cell in zip(parts, spec.cells, strict=True)}
    assert len(cells) == len(found)


def test_parts_are_grids_of_their_own_called_after_their_names() -> None:
    raw = {"parts": {"one": {"axes": {"frames": [1, 8]}}, "two": {"settings": {"mode": "draft"}}}}
    assert labels(raw) == ["one · 1 frame", "one · 8 frames", "two · draft"]
    assert [cell.settings.max_new_tokens for cell in parsed(raw, max_new_tokens=3).cells] == [3, 3, 3]


def test_the_examples_of_the_page_are_grids() -> None:
    text = (ROOT / "docs/suites.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(toml|json)\n(.*?)```", text, re.DOTALL)
    specs = [parsed(tomllib.loads(body) if form == "toml" else json.loads(body)) for form, body in blocks]
    assert [len(spec.cells) for spec in specs] == [7, 4, 9]
    assert specs[0].data == "dataset.csv"


SPECULATING = {"mode": "speculative"}


def test_drafters_are_an_axis_with_names_of_their_own() -> None:
    grid = {"settings": SPECULATING, "axes": {"drafter": ["model", "lookup", "self"], "gamma": [2, 4]}}
    assert labels(grid)[:3] == ["γ 2 · model drafter", "γ 4 · model drafter", "γ 2 · lookup drafter"]
    cells = parsed(grid).cells
    assert [cell.settings.speculation.drafter for cell in cells] == ["model"] * 2 + ["lookup"] * 2 + ["self"] * 2
    assert [cell.roles for cell in cells[1:3]] == [("draft", "target"), ("target",)]
    assert cells[2].draft is None


def test_an_adapter_is_named_in_either_place_and_its_kind_is_the_drafter(tmp_path: Path) -> None:
    folder = describe_adapter(tmp_path / "my-counts", "ngram")
    for name in ("drafter", "adapter"):
        (cell,) = parsed({"settings": {**SPECULATING, name: str(folder)}}).cells
        asked = cell.settings.speculation
        assert (asked.drafter, asked.adapter, cell.roles) == ("ngram", str(folder), ("target",))
    grid = {"settings": SPECULATING, "axes": {"drafter": ["lookup", str(folder)], "length": ["fixed", "heuristic"]}}
    assert labels(grid)[1:3] == ["lookup drafter · heuristic length", "my-counts · fixed length"]
    cache_map = describe_adapter(tmp_path / "my-map", "kv")
    (cell,) = parsed({"settings": {"mode": "kv-adapted", "adapter": str(cache_map)}}).cells
    assert (cell.settings.speculation.drafter, cell.settings.speculation.adapter) == ("model", str(cache_map))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"drafter": "lookpu"}, "did you mean lookup"),
        ({"length": "long"}, "length must be one of fixed, heuristic, budgeted"),
        ({"hidden": "many"}, "hidden must be a whole number"),
        ({"tree": "3,2"}, "Only some drafters draft trees"),
        ({"adapter": "nowhere"}, "is no trained adapter"),
        ({"mode": "parallel-prefill", "drafter": "lookup"}, "Parallel prefill drafts with the draft model"),
        ({"mode": "kv-adapted"}, "needs a trained map"),
    ],
)
def test_what_cannot_draft_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        parsed({"settings": {**SPECULATING, **settings}})


def test_a_map_of_caches_is_of_use_in_its_own_mode_only(tmp_path: Path) -> None:
    folder = describe_adapter(tmp_path / "map", "kv")
    with pytest.raises(UserError, match="choose --mode kv-adapted"):
        parsed({"settings": {**SPECULATING, "adapter": str(folder)}})
    with pytest.raises(UserError, match="choose --mode speculative"):
        parsed({"settings": {"mode": "kv-adapted", "adapter": str(describe_adapter(tmp_path / "n", "ngram"))}})


def test_what_has_no_effect_on_drafting_makes_no_cells() -> None:
    """The window's settings outside parallel prefill; gamma and length where nothing is drafted in rounds."""
    spec = parsed({"settings": SPECULATING, "axes": {"hidden": [0, 4, "none"], "afterwards": ["plain", "rounds"]}})
    assert len(spec.cells) == 1
    window = {"mode": "parallel-prefill"}
    assert len(parsed({"settings": window, "axes": {"gamma": [2, 3], "length": ["fixed", "heuristic"]}}).cells) == 1
    both = {"gamma": [2, 3], "afterwards": ["plain", "rounds"]}
    assert labels({"settings": window, "axes": both}) == ["then plain", "γ 2 · then rounds", "γ 3 · then rounds"]
    assert labels({"settings": window, "axes": {"hidden": ["none", 0, 4]}}) == [
        "hidden as time allows",
        "0 hidden",
        "4 hidden",
    ]
    assert len(parsed({"settings": {"mode": "target"}, "axes": {"drafter": ["lookup", "self"]}}).cells) == 1
