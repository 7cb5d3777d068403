"""The distributions window: what it shows of the columns, how often it changes, its looks, and that it goes away."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from evprof.core.protocols import RunEnded, RunStarted
from evprof.core.recording import RecordLog
from evprof.core.records import DRAFT, TARGET, RoundRecord, TokenRecord
from evprof.core.run_info import FINISHED, RunInfo
from evprof.core.run_log import RunLog
from evprof.core.sample import Sample
from evprof.metrics.figures.decoding import token_gaps_ms
from evprof.view.columns import ShownModel, columns_of
from kept import Keep
from ui.distributions.window import DistributionsDialog, distributions, pools
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder


@pytest.fixture
def dialog(
    application: QApplication, controller: RunController, selection: Selection, themes: ThemeHolder, keep: Keep
) -> DistributionsDialog:
    """The window over the scripted runs, with nothing selected."""
    made = DistributionsDialog(controller, selection, themes)
    made.show()
    application.processEvents()
    return keep(made)


def test_it_follows_the_columns(
    dialog: DistributionsDialog, selection: Selection, runs: dict[int, RunLog], application: QApplication
) -> None:
    selection.set_runs(1, 2)
    assert not dialog.empty.isVisible()
    assert [(curve.color, list(curve.values)) for curve in dialog.times.curves] == [
        ("draft", token_gaps_ms(runs[1])),
        ("decode", token_gaps_ms(runs[2])),
    ]
    assert [row.swatch for row in dialog.table.rows] == ["draft", "decode"]
    assert not dialog.acceptance.isVisible()
    assert "speculative run" in dialog.acceptance_caption.text()
    assert "0 ms" not in dialog.times_caption.text()
    selection.set_runs(3, 3)
    application.processEvents()
    assert [curve.color for curve in dialog.times.curves] == ["decode"]
    assert dialog.acceptance.isVisible()
    assert "0 ms" in dialog.times_caption.text()
    selection.set_runs(None, None)
    assert dialog.empty.isVisible()
    assert dialog.times.curves == ()


def _start(recording: RecordLog, run_id: int, **facts: object) -> None:
    info = RunInfo(run_id=run_id, group_id=1, repeat=run_id, role=TARGET, mode="target")
    for name, value in facts.items():
        setattr(info, name, value)
    recording.post(RunStarted(run_id, info))


def _token(recording: RecordLog, run_id: int, position: int, t_ms: float) -> None:
    recording.append(TokenRecord(run_id, TARGET, position, 7, "target", -1, round(1e6 * t_ms), "a"))


def test_repeats_of_a_request_are_one_curve(selection: Selection) -> None:
    recording = RecordLog()
    apart = {"sample": Sample(name="another")}
    for run_id, facts in ((1, {"warmup": True}), (2, {}), (3, {}), (4, apart | {"group_id": 2})):
        _start(recording, run_id, **facts)
        for position in range(3):
            _token(recording, run_id, position, 1000 * run_id + position * run_id)
        recording.post(RunEnded(run_id, FINISHED))
    _start(recording, 5)
    _token(recording, 5, 0, 1.0)
    controller = RunController(recording)
    controller.pull()

    def gaps(run_id: int) -> list[float]:
        found = distributions(pools(columns_of(controller.runs, (None, run_id)), controller.runs))
        return found.gaps_ms[0]

    assert gaps(2) == gaps(3) == [2, 2, 3, 3]
    assert gaps(4) == [4, 4]
    assert gaps(5) == []


def test_a_run_that_goes_on_changes_it_once_an_interval(selection: Selection, themes: ThemeHolder, monkeypatch) -> None:
    recording = RecordLog()
    controller = RunController(recording)
    dialog = DistributionsDialog(controller, selection, themes)
    dialog.show()
    _start(recording, 1, mode="speculative")
    controller.pull()
    selection.set_runs(1, 1)
    assert dialog.times_caption.text().startswith("The curve begins with a run's second token")
    assert dialog.acceptance_caption.text() == "This fills with the first verified round."
    drawn: list[object] = []
    draw = dialog.times.show_curves
    monkeypatch.setattr(dialog.times, "show_curves", lambda curves: drawn.append(curves) or draw(curves))
    for count in range(1, 91):
        recording.append(RoundRecord(1, count, count, 1, 1, 0, 4, count % 5, count % 5 + 1, "", 0))
        _token(recording, 1, count, 10 * count + count % 3)
        controller._tick()
    assert len(drawn) < 30
    controller.pull()
    assert len(dialog.times.curves[0].values) == count - 1
    assert [position.drafted for position in dialog.acceptance.positions] == [count] * 4
    before = len(drawn)
    controller.figures_due.emit({1})
    assert len(drawn) == before
    controller.replace_recording(RecordLog())
    assert dialog.empty.isVisible()


def test_the_draft_that_only_helps_has_no_curve(runs: dict[int, RunLog]) -> None:

    assert pools((ShownModel(runs[3], DRAFT), None), runs) == []
