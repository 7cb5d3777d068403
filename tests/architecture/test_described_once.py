"""A setting, a drafter, a family, a figure and a mode are described once: registered here, everybody offers and tells
them. In a fresh interpreter, because the vocabulary is read once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

REGISTER = """
from dataclasses import make_dataclass, replace
from evprof.core.vocabulary import drafters, families, figures, modes

modes.MODES["dummy-mode"] = modes.Mode("dummy-mode", "Dummy mode", "Nobody knows.", drafts=True, is_paired=True)
families.FAMILIES["dummy_net"] = replace(
    families.FAMILIES["video_llava"], key="dummy_net", title="DummyNet", model_type="dummy_net", is_bundled=False
)
made = replace(drafters.KINDS["lookup"], key="dummy-drafter", word="dummy drafter")
drafters.KINDS["dummy-drafter"] = drafters.DRAFTERS["dummy-drafter"] = made
figures.FIGURES["dummy_ms"] = figures.Figure("dummy_ms", "a dummy", "ms", "Nobody knows.")

import evprof.core.vocabulary.switches as switches
from evprof.core.vocabulary.setting import ROUNDED, setting

words = dict(choices=(("off", "off"), ("on", "on")), label="dummied")
dummy = setting("off", "dummy", "Does nothing.", "Vision", ROUNDED, **words)
switches.Switches = make_dataclass("Switches", [("dummy", str, dummy)], bases=(switches.Switches,), frozen=True)
from evprof.metrics.comparison.figures import READERS

READERS["dummy_ms"] = lambda run, *_: 10.0 * run.run_id
found = {}
"""

ASK = """
import argparse, json
from evprof.cli.run.command import RunCommand
from evprof.cli.suite.command import SuiteCommand

for name, command in (("run", RunCommand()), ("suite", SuiteCommand())):
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    found[name + " help"] = " ".join(parser.format_help().split())

from evprof.core.vocabulary.generation import GenerationSettings
from evprof.core.vocabulary.settings import option_words, with_value
from evprof.run.suites.spec import parse_suite

grid = {"settings": {"mode": "target"}, "axes": {"dummy": ["off", "on"]}}
found["suite labels"] = [cell.label for cell in parse_suite(grid, "grid").cells]
grid = {"settings": {"mode": "dummy-mode"}, "axes": {"drafter": ["model", "dummy-drafter"]}}
found["suite of drafters"] = [(cell.mode, cell.label) for cell in parse_suite(grid, "grid").cells]

asked = with_value(GenerationSettings(), "dummy", "on")
found["json"] = asked.to_json()["switches"]["dummy"]
found["words"] = option_words({"dummy": "on"})

from evprof.core.run_info import FINISHED, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.metrics.comparison.document import compare_document
from evprof.metrics.configurations.gathering import Configuration
from evprof.metrics.configurations.settings_text import run_label

def run(number, settings):
    sample = Sample(video_path="v.mp4", name="v")
    return RunLog(RunInfo(number, number, 0, "target", "target", settings, sample, status=FINISHED))

runs = [run(1, GenerationSettings()), run(2, asked)]
found["run label"] = run_label(runs[1:])
columns = [Configuration((one,)) for one in runs]
document = compare_document(columns, columns[0])
found["compared setting"] = [row["values"] for row in document["settings"] if row["setting"] == "dummy"]
found["compared figure"] = [row["values"] for row in document["rows"] if row["metric"] == "dummy_ms"]


from evprof.cli.inspect.reports import list_models

found["families"] = [entry["description"] for entry in list_models()["families"]]

from PySide6.QtWidgets import QApplication
from ui.settings.request_form import RequestForm
from ui.settings.settings_popover import SettingsPopover
from ui.settings.tool_buttons import ModeButton
from ui.style.theme import ThemeHolder, theme_named

application = QApplication([])
popover = SettingsPopover(RequestForm(), ThemeHolder(theme_named("dark")))
found["popover"] = popover.rows["dummy"].field.toolTip()
field = popover.rows["drafter"].field
found["popover drafters"] = [field.itemText(place) for place in range(field.count())]
button = ModeButton()
button.show_form(popover.form)
button.menu().aboutToShow.emit()
found["mode menu"] = [str(action.data()) for action in button.menu().actions()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What each place says of the dummies."""
    done = subprocess.run([sys.executable, "-c", REGISTER + ASK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_setting_is_everywhere(found: dict[str, Any]) -> None:
    for place in ("run help", "suite help"):
        assert "--dummy {off,on}" in found[place]
        assert "Does nothing. Same answer but for rounding. Default: off." in found[place]
    assert found["suite labels"] == ["dummy off", "dummy on"]
    assert (found["json"], found["words"]) == ("on", ["--dummy", "on"])
    assert (found["run label"], found["compared setting"]) == ("dummied", [["off", "on"]])
    assert found["popover"] == "Does nothing. Same answer but for rounding."


def test_a_mode_and_a_drafter_are_everywhere(found: dict[str, Any]) -> None:
    assert "dummy-mode" in found["run help"]
    assert found["suite of drafters"] == [["dummy-mode", "model drafter"], ["dummy-mode", "dummy-drafter drafter"]]
    assert "dummy drafter" in found["popover drafters"]
    assert "dummy-mode" in found["mode menu"]


def test_a_family_and_a_figure_are_everywhere(found: dict[str, Any]) -> None:
    assert any(sentence.startswith("DummyNet: ") for sentence in found["families"])
    assert found["compared figure"] == [[10.0, 20.0]]
