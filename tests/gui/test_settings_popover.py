"""The settings popover: every control changes exactly its field, says when it makes no sense, and can be reset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QStandardItemModel
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDoubleSpinBox, QSpinBox

from described_adapter import describe_adapter
from evprof.core.sample import Sample
from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from evprof.core.vocabulary.inputs import InputSettings
from evprof.core.vocabulary.speculation import SpeculationSettings
from evprof.core.vocabulary.switches import Switches
from evprof.loaders.bundled import bundled_sample
from evprof.run.requests import BUNDLED_DRAFT, BUNDLED_TARGET
from kept import Keep
from ui.settings.checkpoints import family_named
from ui.settings.request_form import RequestForm, controls, lowest, value_of, value_shown
from ui.settings.settings_popover import CHANGED, IDLE, INEXACT, PLAIN, SettingsPopover
from ui.settings.toolbar import Toolbar
from ui.state.recent import Recent
from ui.style.theme import ThemeHolder
from ui.widgets.choice_box import ChoiceBox

TIP = Qt.ItemDataRole.ToolTipRole
CONTROLS = controls()

NEEDS: dict[str, dict[str, Any]] = {
    "gamma": {"mode": "speculative"},
    "top_p": {"temperature": 0.5},
    "top_k": {"temperature": 0.5},
    "seed": {"temperature": 0.5},
    "exit_confidence": {"early_exit": 4},
    "prune_by": {"visual_keep": 0.5},
    "image_layout": {"target": "random:7b-llava"},
    "pooling": {"event_frames": 1},
    "drafter": {"mode": "speculative"},
    "length": {"mode": "speculative"},
    "judges": {"mode": "speculative"},
    "draft_keep": {"mode": "speculative"},
    "draft_prune_by": {"mode": "speculative", "draft_keep": 0.5},
    "tree": {"mode": "speculative", "drafter": ("eagle", "{adapter}")},
    **{key: {"mode": "parallel-prefill"} for key in ("begins", "hidden", "shape", "verify", "afterwards")},
}
"""What has to be set before a control makes sense."""


@pytest.fixture
def form() -> RequestForm:
    made = RequestForm()
    made.sample = bundled_sample()
    return made


@pytest.fixture
def popover(form: RequestForm, themes: ThemeHolder, keep: Keep) -> SettingsPopover:
    return keep(SettingsPopover(form, themes))


@pytest.fixture(scope="session")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that describes an EAGLE head for the bundled target."""
    return describe_adapter(tmp_path_factory.mktemp("heads") / "eagle", "eagle", target=BUNDLED_TARGET)


def prepare(form: RequestForm, key: str, adapter: str) -> None:
    for name, value in NEEDS.get(key, {}).items():
        if name == "mode":
            form.choose_mode(value)
        elif name == "target":
            form.target = ModelChoice(value)
        else:
            form.take(name, (value[0], adapter) if name == "drafter" else value)


def touch(popover: SettingsPopover, key: str) -> Any:
    """Changes a control with the keyboard as a person would; returns the value that should follow."""
    row = popover.rows[key]
    assert row.field.isEnabled(), row.field.toolTip()
    if isinstance(row.field, ChoiceBox):
        row.field.setCurrentIndex(1 if row.field.currentIndex() != 1 else 0)
        return row.control.choices[row.field.currentIndex()][0]
    assert isinstance(row.field, QSpinBox | QDoubleSpinBox)
    falls = row.field.value() == row.field.maximum()
    QTest.keyClick(row.field, Qt.Key.Key_Down if falls else Qt.Key.Key_Up)
    return value_shown(row.control, row.field.value())


def everything(form: RequestForm) -> dict[str, Any]:
    """What a run is asked for, as one dictionary."""
    request = form.request()
    values = request.settings.flat() | {"drafter": value_of(request.settings, "drafter")}
    del values["adapter"]
    return {**values, "warmup": request.warmup, "repeat": request.repeat}


def test_every_setting_there_is_has_a_control() -> None:
    known = {*GenerationSettings.__dataclass_fields__, *InputSettings.__dataclass_fields__}
    known |= {*Switches.__dataclass_fields__, *SpeculationSettings.__dataclass_fields__, "warmup", "repeat"}
    # One control stands for the drafter and its adapter.
    assert set(CONTROLS) == known - {"input", "switches", "speculation", "adapter", "max_new_tokens"}
    for control in CONTROLS.values():
        assert control.sentence.endswith("."), control.key
        assert control.default in [value for value, _ in control.choices] or not control.choices
    lossy = {key for key, control in CONTROLS.items() if "ay change the answer" in control.sentence}
    assert {"cache", "early_exit", "exit_confidence", "visual_keep", "prune_by"} <= lossy
    assert not lossy & {"attention", "step", "prefill_chunk", "vision_cache", "projector", "gamma"}


@pytest.mark.parametrize("key", list(CONTROLS))
def test_every_control_changes_exactly_its_field(
    popover: SettingsPopover, form: RequestForm, key: str, adapter: str
) -> None:
    prepare(form, key, adapter)
    popover.refresh()
    told: list[bool] = []
    popover.changed.connect(lambda: told.append(True))
    before = everything(form)
    wanted = touch(popover, key)
    after = everything(form)
    assert {name for name in before if before[name] != after[name]} == {key}
    assert after[key] == pytest.approx(wanted) if isinstance(wanted, float) else after[key] == wanted
    assert told == [True]
    assert popover.rows[key].state in (CHANGED, INEXACT)
    assert key in form.changed


@pytest.mark.parametrize("key", list(CONTROLS))
def test_what_a_control_shows_is_what_is_set(
    popover: SettingsPopover, form: RequestForm, key: str, adapter: str
) -> None:
    prepare(form, key, adapter)
    control = CONTROLS[key]
    values = [value for value, _ in control.choices] or [value_shown(control, lowest(control) + control.range.step)]
    for value in values:
        form.take(key, value)
        popover.refresh()
        shown = popover.rows[key].field
        if isinstance(shown, ChoiceBox):
            assert shown.currentText() == dict(control.choices)[value]
        else:
            assert value_shown(control, shown.value()) == pytest.approx(value)
        assert form.value(key) == value


def test_a_canvas_can_be_typed(popover: SettingsPopover, form: RequestForm) -> None:
    field = popover.rows["canvas"].field
    assert isinstance(field, ChoiceBox)
    field.lineEdit().selectAll()
    QTest.keyClicks(field.lineEdit(), "480X320")
    assert form.settings.input.canvas == "480x320"
    assert field.currentText().lower() == "480x320"
    field.lineEdit().setCursorPosition(1)
    QTest.keyClicks(field.lineEdit(), "0")
    assert form.settings.input.canvas == "4080x320"
    assert field.lineEdit().cursorPosition() == 2
    popover.reset.click()
    assert field.currentText() == "auto"


def test_reset_puts_everything_back(popover: SettingsPopover, form: RequestForm) -> None:
    untouched = everything(form)
    assert not popover.reset.isEnabled()
    for key, value in {"cache": "static", "warmup": 3, "draft_input": "video", "frames": 4, "top_p": 0.5}.items():
        form.take(key, value)
    form.take("max_new_tokens", 33)
    popover.refresh()
    told: list[bool] = []
    popover.changed.connect(lambda: told.append(True))
    assert popover.reset.isEnabled()
    QTest.mouseClick(popover.reset, Qt.MouseButton.LeftButton)
    # The length of an answer has its own field in the toolbar.
    assert everything(form) == {**untouched, "max_new_tokens": 33}
    assert (told, form.changed) == ([True], [])
    assert not popover.reset.isEnabled()


@pytest.mark.parametrize(
    ("mode", "taken", "key", "reason"),
    [
        ("side-by-side", {}, "gamma", "Only speculative modes draft."),
        ("side-by-side", {"drafter": ("lookup", None)}, "drafter", "Only speculative modes draft."),
        ("kv-adapted", {"early_exit": 2}, "early_exit", "Early exit changes the answer, and speculation must not."),
        ("speculative", {"drafter": ("lookup", None), "draft_input": "video"}, "draft_input", "does not run"),
        ("side-by-side", {"seed": 3}, "seed", "Nothing is drawn at temperature 0."),
        ("target", {"canvas": "640x480"}, "canvas", "No model reads events."),
        (
            "side-by-side",
            {"prompt_style": "training", "event_markers": False},
            "event_markers",
            "The training prompt has no markers.",
        ),
        ("side-by-side", {"image_layout": "grid"}, "image_layout", "only LLaVA-1.5 can be shown a grid."),
    ],
)
def test_what_makes_no_sense_is_grey_says_why_and_does_not_run(
    popover: SettingsPopover, mode: str, taken: dict[str, Any], *, key: str, reason: str, tmp_path: Path
) -> None:
    form = popover.form
    if mode == "kv-adapted":
        form.take(
            "drafter", ("kv", describe_adapter(tmp_path / "map", "kv", target=BUNDLED_TARGET, draft=BUNDLED_DRAFT))
        )
    form.choose_mode(mode)
    for name, value in taken.items():
        form.take(name, value)
    popover.refresh()
    row = popover.rows[key]
    assert not row.field.isEnabled()
    assert reason in row.field.toolTip()
    assert row.control.sentence in row.field.toolTip()
    assert row.state == (IDLE if key in taken else PLAIN)
    assert key not in form.changed
    assert everything(form)[key] == CONTROLS[key].default
    if key in taken:
        assert reason in form.idle[key]
        assert form.value(key) == taken[key]


def shown(popover: SettingsPopover) -> set[str]:
    """Settings whose field can be seen."""
    return {key for key, row in popover.rows.items() if not row.field.isHidden()}


def test_half_of_the_settings_are_folded_and_reasons_are_on_the_rows(
    popover: SettingsPopover, form: RequestForm
) -> None:
    """A setting that is not at its default is always there; what has no effect says why, once for a whole head."""
    usual = {key for key, control in CONTROLS.items() if not control.is_advanced}
    assert len(usual) <= len(CONTROLS) / 2
    assert shown(popover) == usual - {"seed", "gamma", "drafter", "tree"}
    assert popover.rows["seed"].reason.text() == "Nothing is drawn at temperature 0."
    assert not popover.rows["seed"].reason.isHidden()
    title, reason = popover._heads["Speculation"]
    assert (title.isHidden(), reason.text()) == (False, "Only speculative modes draft.")
    assert popover.rows["gamma"].reason.isHidden()
    assert popover.browse.isHidden()
    assert popover.legend.isHidden()
    popover.rows["canvas"].changed.emit("canvas", "640x480")
    assert "canvas" in shown(popover)
    assert not popover.legend.isHidden()
    form.choose_mode("speculative")
    popover.advanced.click()
    assert {"gamma", "drafter", "ignore_eos", "length"} <= shown(popover)
    assert not popover.browse.isHidden()
    assert popover.rows["begins"].reason.text() == "" or popover.rows["begins"].reason.isHidden()


def choice_states(popover: SettingsPopover, key: str) -> dict[str, tuple[bool, str]]:
    field = popover.rows[key].field
    assert isinstance(field, ChoiceBox)
    items = field.model()
    assert isinstance(items, QStandardItemModel)
    return {
        str(value): (items.item(place).isEnabled(), str(field.itemData(place, Qt.ItemDataRole.ToolTipRole) or ""))
        for place, (value, _) in enumerate(popover.rows[key].control.choices)
    }


def test_single_choices_are_refused_with_the_reason(popover: SettingsPopover, form: RequestForm) -> None:
    assert choice_states(popover, "cache")["hqq4"] == (True, "")
    assert not choice_states(popover, "pooling")["none"][0]
    assert "set the draft's frames to 1" in choice_states(popover, "pooling")["none"][1]
    form.choose_mode("speculative")
    form.take("cache", "hqq8")
    form.take("event_frames", 1)
    popover.refresh()
    states = choice_states(popover, "cache")
    assert [name for name, (is_offered, _) in states.items() if not is_offered] == ["hqq8", "hqq4"]
    assert "cannot forget rejected tokens" in states["hqq8"][1]
    assert form.request().settings.switches.cache == "auto"
    assert choice_states(popover, "pooling")["none"] == (True, "")
    form.choose_mode("side-by-side")
    assert form.request().settings.switches.cache == "hqq8"


def drafters(popover: SettingsPopover) -> dict[str, tuple[bool, str]]:
    field = popover.rows["drafter"].field
    assert isinstance(field, ChoiceBox)
    items = field.model()
    assert isinstance(items, QStandardItemModel)
    places = range(len(popover.rows["drafter"].control.choices))
    return {
        field.itemText(place): (items.item(place).isEnabled(), str(field.itemData(place, TIP) or ""))
        for place in places
    }


def test_drafters_are_refused_where_they_cannot_draft(
    popover: SettingsPopover, form: RequestForm, tmp_path: Path, adapter: str
) -> None:
    popover.take_adapter(adapter)
    assert form.settings.speculation.drafter == "eagle"
    assert form.settings.speculation.adapter == adapter
    form.choose_mode("speculative")
    popover.refresh()
    listed = drafters(popover)
    assert {"draft model", "prompt lookup", "target itself", f"EAGLE · {Path(adapter).name}"} <= set(listed)
    assert all(is_offered for name, (is_offered, _) in listed.items() if not name.startswith("KV map"))
    assert form.request().draft is None
    form.choose_mode("parallel-prefill")
    popover.refresh()
    assert drafters(popover)["prompt lookup"] == (False, "Parallel prefill takes the draft model.")
    # What cannot draft here stays chosen, is not in use, and does not run.
    assert "draft model" in form.idle["drafter"]
    assert form.request().settings.speculation.drafter == "model"
    assert form.request().draft is not None
    popover.take_adapter(describe_adapter(tmp_path / "map", "kv", target="another-model"))
    form.choose_mode("kv-adapted")
    popover.refresh()
    assert drafters(popover)["KV map · map"][1] == f"It was trained for another-model, not for {BUNDLED_TARGET}."
    assert "takes a trained map" in drafters(popover)["draft model"][1]


def test_a_map_of_caches_runs_in_its_own_mode_alone(popover: SettingsPopover, form: RequestForm, tmp_path) -> None:
    folder = describe_adapter(tmp_path / "map", "kv", target=BUNDLED_TARGET, draft=BUNDLED_DRAFT)
    popover.take_adapter(folder)
    assert (form.settings.speculation.drafter, form.settings.speculation.adapter) == ("model", folder)
    form.choose_mode("speculative")
    assert form.request().settings.speculation.adapter is None
    assert "changes the answer" in form.idle["drafter"]
    form.choose_mode("kv-adapted")
    popover.refresh()
    assert form.mode == "kv-adapted"
    assert form.request().settings.speculation.adapter == folder
    assert popover.rows["drafter"].state == INEXACT


@pytest.mark.parametrize(
    ("inputs", "events", "video", "problems"),
    [
        ({}, True, False, {"draft": "", "target": "needs a video", "speculative": "needs a video"}),
        ({"target_input": "events"}, True, False, {"side-by-side": "", "speculative": "", "target": ""}),
        ({"draft_input": "video"}, False, True, {"side-by-side": "", "draft": "", "target": ""}),
        ({"draft_input": "video"}, True, False, {"draft": "needs a video", "side-by-side": "needs a video"}),
        (
            {"draft_input": "video", "target_input": "events"},
            False,
            False,
            {"side-by-side": "needs events and a video", "draft": "needs a video", "target": "needs events"},
        ),
    ],
)
def test_modes_need_what_their_models_read(
    inputs: dict[str, str], events: bool, video: bool, problems: dict[str, str]
) -> None:
    form = RequestForm()
    form.sample = Sample("/a.npy" if events else None, "/a.mp4" if video else None)
    for key, value in inputs.items():
        form.take(key, value)
    assert {mode: form.mode_problem(mode) for mode in problems} == problems


@pytest.fixture
def toolbar(themes: ThemeHolder, tmp_path: Path, keep: Keep) -> Toolbar:
    made = Toolbar(themes, Recent(tmp_path / "recent.json"))
    made.resize(1600, 44)
    made.show()
    made.current.choose_sample(bundled_sample())
    return keep(made)


def test_the_button_counts_what_is_not_at_its_default(toolbar: Toolbar) -> None:
    assert toolbar.settings.text() == ""
    popover = toolbar.settings_popover
    for key in ("cache", "step", "visual_keep"):
        touch(popover, key)
    assert toolbar.settings.text() == "3"
    assert "KV cache, decode step, tokens kept" in toolbar.settings.toolTip()
    toolbar.form.take("seed", 5)
    toolbar.choose_mode("speculative")
    assert toolbar.settings.text() == "3"
    assert "not in use now: seed. Nothing is drawn at temperature 0." in toolbar.settings.toolTip()
    toolbar.form.take("temperature", 0.5)
    toolbar.choose_mode("speculative")
    assert toolbar.settings.text() == "5"
    popover.reset.click()
    assert toolbar.settings.text() == ""


def test_settings_survive_a_restart(toolbar: Toolbar, themes: ThemeHolder, tmp_path: Path) -> None:
    popover = toolbar.settings_popover
    popover.open_below(toolbar.settings)
    touch(popover, "cache")
    popover.hide()
    again = Toolbar(themes, Recent(tmp_path / "recent.json"))
    assert again.form.settings == toolbar.form.settings
    assert again.settings.text() == "1"
    (tmp_path / "recent.json").write_text('{"settings": {"gamma": "many", "switches": {"cache": "magic"}}}')
    assert Recent(tmp_path / "recent.json").settings == GenerationSettings()
    (tmp_path / "recent.json").write_text('{"settings": {"switches": {"cache": "magic"}}}')
    assert Recent(tmp_path / "recent.json").settings == GenerationSettings()
    again.deleteLater()


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("evprof-tiny-video-llava", "video_llava"),
        ("evprof-tiny-eventgpt", "eventgpt"),
        ("random:7b-llava", "llava"),
        ("random:7b-llava-next-video", "llava_next_video"),
        ("random:7b-video-llava", "video_llava"),
        ("llava-hf/llava-1.5-7b-hf", None),
        ("{folder}", "llava"),
        ("{folder}/nothing", None),
    ],
)
def test_families_by_name(tmp_path: Path, name: str, family: str | None) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llava"}')
    (tmp_path / "nothing").mkdir()
    assert family_named(name.format(folder=tmp_path)) == family
