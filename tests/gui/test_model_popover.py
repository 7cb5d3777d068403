"""The model picker: what is chosen, and what it says of a checkpoint before anything is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from evprof.core.vocabulary.generation import GenerationSettings, ModelChoice
from ui.settings.examiner import Examiner
from ui.settings.model_popover import OWN_CLIP, ModelPopover
from ui.settings.model_report import LOOKING, model_report
from ui.settings.toolbar import Toolbar
from ui.state.recent import Recent
from ui.style.theme import ThemeHolder

GIB = 1 << 30


def model(role: str, total_gib: float, **changes: Any) -> dict[str, Any]:
    total = int(total_gib * GIB)
    return {
        "role": role,
        "name": f"a-{role}",
        "device": "cuda:0",
        "dtype": "bfloat16",
        "quantization": None,
        "frames": 5,
        "positions": {"visual": 582, "text": 80, "answer": 134},
        "weight_bytes": total - GIB,
        "kv_bytes": GIB // 2,
        "activation_bytes": GIB // 2,
        "alternatives_bytes": 0,
        "total_bytes": total,
        **changes,
    }


def document(*models: dict[str, Any], free_gib: float, placement: str, advice: Any = (), **changes: Any) -> Any:
    """As `evprof inspect` makes it."""
    return {
        "family": "eventgpt",
        "parameters": 7_079_684_096,
        "tensors": 688,
        "missing": [],
        "surplus": [],
        "dtype": "bfloat16",
        "bytes": 13 * GIB,
        "problems": [],
        "fit": {
            "role": models[0]["role"],
            "models": list(models),
            "free_bytes": {"cuda:0": int(free_gib * GIB)},
            "placement": placement,
            "advice": [{"change": change, "bytes": {}} for change in advice],
        },
        **changes,
    }


class Answering(Examiner):
    """Answers when told to; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked: list[dict[str, Any]] = []
        self.answer: dict[str, Any] | None = None
        self.forgotten = 0

    def ask(self, question: dict[str, Any]) -> dict[str, Any] | None:
        self.asked.append(question)
        return self.answer

    def forget(self) -> None:
        self.forgotten += 1


def figures(report: Any) -> dict[str, str]:
    return {figure.name: figure.text for figure in report.figures}


def test_a_report_on_one_that_fits() -> None:
    found = model_report(document(model("draft", 14), model("target", 15), free_gib=40, placement="both"))
    assert figures(found) == {
        "Model": "EventGPT · 7.08B",
        "On disk": "13.00 GiB · bf16 · 688 tensors",
        "Weights": "13.00 GiB · bf16",
        "KV cache": "512.0 MiB",
        "Activations": "512.0 MiB",
        "Needed": "14.00 GiB",
        "Free": "40.00 GiB on cuda:0",
    }
    assert (found.verdict, found.role, found.reason) == ("Fits beside the video model.", "good", "")
    alone = model_report(document(model("draft", 14), free_gib=40, placement="both"))
    assert alone.verdict == "Fits."


def test_a_report_on_a_pair_in_turn() -> None:
    ways = ["--draft-device cuda:1", "--draft-quant int8 --target-quant int4"]
    pair = model("target", 15), model("draft", 14)
    found = model_report(document(*pair, free_gib=24, placement="in turn", advice=ways))
    assert (found.verdict, found.role) == ("Fits, in turn with the event model.", "warn")
    assert found.reason == (
        "Together they need 29.00 GiB on cuda:0. For both at once: event model on cuda:1; or event model in int8, "
        "video model in int4."
    )


def test_a_report_on_one_that_does_not_fit() -> None:
    found = model_report(
        document(model("draft", 14, dtype="float32"), free_gib=8, placement="refused", advice=["--draft-quant nf4"])
    )
    assert (found.verdict, found.role) == ("Does not fit on cuda:0.", "bad")
    assert found.reason == "What fits: event model in nf4."
    assert [figure.role for figure in found.figures if figure.name == "Needed"] == ["bad"]
    other = document(model("draft", 4), model("target", 40), free_gib=8, placement="refused")
    assert model_report(other).verdict == "Fits, but the video model does not."
    assert model_report(other).reason == "No arithmetic, quantization or cache makes it fit."


def test_a_report_on_a_damaged_one() -> None:
    found = model_report(
        document(
            model("draft", 14, quantization="int8"),
            free_gib=40,
            placement="both",
            missing=["a", "b"],
            surplus=["c"],
            problems=["It lacks the tensor 'a' (and 1 more); download it again."],
        )
    )
    assert figures(found)["Model"] == "EventGPT · 7.08B · 2 missing · 1 surplus"
    assert figures(found)["Weights"] == "13.00 GiB · int8"
    assert found.problem.startswith("It lacks the tensor 'a'")
    random = model_report(document(model("draft", 14), free_gib=40, placement="both", bytes=None))
    assert figures(random)["On disk"] == "nothing, random weights"
    failed = model_report({"error": "There is no model of that name."})
    assert (failed.figures, failed.problem) == ((), "There is no model of that name.")


@pytest.fixture
def popover(themes: ThemeHolder) -> Any:
    made = ModelPopover("draft", ModelChoice("evprof-tiny-eventgpt"), Recent(None), themes)
    yield made
    made.hide()
    made.deleteLater()


@pytest.fixture
def anchor(application: QApplication, themes: ThemeHolder) -> Any:
    from PySide6.QtWidgets import QLabel

    made = QLabel("button")
    yield made
    made.deleteLater()


def test_it_looks_while_it_is_open(popover: ModelPopover, anchor: Any) -> None:
    examiner = Answering()
    popover.examine_with(examiner, lambda: {"other": None, "settings": GenerationSettings().to_json()})
    assert examiner.asked == []
    popover.open_below(anchor)
    assert popover.facts.report is not None
    assert popover.facts.report.verdict == LOOKING
    assert examiner.asked[0]["role"] == "draft"
    assert examiner.asked[0]["model"]["name"] == "evprof-tiny-eventgpt"
    assert json.dumps(examiner.asked[0])
    before = popover.height()
    examiner.answer = document(model("draft", 14), free_gib=40, placement="both")
    examiner.answered.emit()
    assert popover.facts.report.verdict == "Fits."
    assert popover.height() == before
    examiner.answer = document(model("draft", 14), free_gib=9, placement="refused", advice=["--draft-quant nf4"])
    examiner.answered.emit()
    assert "nf4" in popover.facts.reason.text()
    assert popover.height() > before
    popover.hide()
    assert examiner.forgotten == 1
    asked = len(examiner.asked)
    examiner.answered.emit()
    assert len(examiner.asked) == asked


def test_a_clip_folder(popover: ModelPopover, tmp_path: Path) -> None:
    assert popover.clip.text() == OWN_CLIP
    assert popover.no_clip.isHidden()
    for content, sentence in (
        (None, "holds no config.json"),
        ("{", "cannot be read as JSON"),
        ('{"model_type": "llama"}', "its model_type is 'llama'"),
        ('{"model_type": "clip"}', "holds no weights"),
    ):
        if content is not None:
            (tmp_path / "config.json").write_text(content)
        popover.choose_clip(str(tmp_path))
        assert sentence in popover.problem.text()
        assert popover.choice.clip is None
    (tmp_path / "model.safetensors").write_bytes(b"")
    popover.choose_clip(str(tmp_path))
    assert popover.choice.clip == str(tmp_path)
    assert popover.problem.isHidden()
    assert not popover.no_clip.isHidden()
    assert popover.clip.toolTip() == str(tmp_path)
    assert popover.clip.fontMetrics().horizontalAdvance(popover.clip.text()) < popover.width() - 48
    popover.no_clip.click()
    assert popover.choice.clip is None
    assert popover.clip.text() == OWN_CLIP


def test_the_toolbar_names_the_other_model_and_the_settings(themes: ThemeHolder, files: dict[str, str]) -> None:
    toolbar = Toolbar(themes)
    toolbar.examiner = Answering()
    toolbar.open_events(files["events"])
    toolbar.open_video(files["video"])
    toolbar.form.target = ModelChoice("random:7b-llava", "cuda:1")
    assert toolbar._beside("draft")["other"]["name"] == "random:7b-llava"
    assert toolbar._beside("target")["other"]["name"] == "evprof-tiny-eventgpt"
    assert toolbar._beside("target")["settings"]["max_new_tokens"] == toolbar.form.settings.max_new_tokens
    toolbar.choose_mode("target")
    assert toolbar._beside("target")["other"] is None
    toolbar.set_busy(True)
    assert toolbar.examiner.is_held
    toolbar.set_busy(False)
    assert not toolbar.examiner.is_held
    toolbar.deleteLater()


def _state(popover: ModelPopover, key: str, value: str) -> tuple[bool, str]:
    box = popover.boxes[key]
    place = box.findData(value)
    item = box.model().index(place, 0)
    return bool(item.flags() & Qt.ItemFlag.ItemIsEnabled), str(item.data(Qt.ItemDataRole.ToolTipRole) or "")


def test_what_the_machine_cannot_do_is_greyed_with_the_reason(application: QApplication, themes: ThemeHolder) -> None:
    toolbar = Toolbar(themes)
    popover = toolbar.popover("target")
    popover._offer()
    assert _state(popover, "quantization", "int4") == (True, ""), "the engine has not said what there is"
    toolbar.set_environment({"device": "A Processor", "cuda": "13.0", "gpu": None})
    popover.open_below(toolbar.run_button)
    for kind in ("int8", "int4", "nf4"):
        is_offered, remark = _state(popover, "quantization", kind)
        assert is_offered, "the engine runs it on a CPU"
        assert "saves memory, not time" in remark
    for key, value, because in (("device", "cuda:0", "no CUDA device"), ("quantization", "fp8", "capability 8.9")):
        is_offered, reason = _state(popover, key, value)
        assert not is_offered
        assert because in reason
    toolbar.set_environment({"device": "A GPU", "cuda": "13.0", "gpu": {"clocks_mhz": None}})
    popover.open_below(toolbar.run_button)
    assert _state(popover, "quantization", "int4") == (True, "")
    device = popover.boxes["device"]
    device.setCurrentText("cpu")
    assert "not time" in _state(popover, "quantization", "int4")[1], "on a machine with a GPU, for the model on the CPU"
    popover.close()
    toolbar.deleteLater()
