"""Edits of runs by people: names, notes, baselines and deletions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from PySide6.QtWidgets import QInputDialog, QWidget

from evprof.core.run_info import FEWEST_TURNS
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from ui.state.cells import typical_pair
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.widgets.choice_box import ChoiceMenu
from ui.widgets.label import literal
from ui.widgets.message_bar import UNDO
from ui.widgets.text_dialogs import ask_long_text

MOST_LISTED = 40
"""Runs that a menu lists; of more than that the last."""

BY_RULE = "Automatic"

BOTH_IN_TURNS = f"Measure with target alone, {FEWEST_TURNS} turns"

Post = Callable[[str, str, str, Callable[[], None] | None], None]
"""Posts a sentence of a kind, with the word and the work of its action (see `MessageBar.post`)."""

_NONE_CHOSEN = "Choose a finished run in the list first."


class RunRemarks:
    """Writes edits into the session, with dialogs for texts. `post` shows messages."""

    def __init__(self, controller: RunController, selection: Selection, window: QWidget) -> None:
        self._controller = controller
        self._selection = selection
        self._window = window
        self.post: Post = lambda *_: None

    def ask_name(self, run_ids: Sequence[int]) -> None:
        """Asks for the name of runs; without one they have that of their mode."""

        def ask(label: str, before: str) -> str | None:
            name, is_given = QInputDialog.getText(self._window, "Rename", label, text=before)
            return name if is_given else None

        self._ask(run_ids, "name", "Name of {}:", ask)

    def ask_note(self, run_ids: Sequence[int]) -> None:
        self._ask(run_ids, "note", "Note on {}:", lambda *told: ask_long_text(self._window, "Note", *told))

    def _ask(self, run_ids: Sequence[int], field: str, label: str, ask: Callable[[str, str], str | None]) -> None:
        from evprof.metrics.configurations.baselines import runs_text

        if not run_ids:
            self.post(_NONE_CHOSEN, "info", "", None)
            return
        recording = self._controller.recording
        texts = {getattr(run.info, field) for run_id in run_ids if (run := self._controller.run(run_id))}
        text = ask(label.format(runs_text(run_ids)), texts.pop() if len(texts) == 1 else "")
        if self._controller.recording is not recording:
            self.post("Another session was opened; its runs are unchanged.", "info", "", None)
        elif text is not None:
            self.write(run_ids, field, text)

    def write(self, run_ids: Sequence[int], field: str, text: str) -> None:
        """Writes the "name" or the "note" of runs."""
        self._describe(run_ids, **{field: " ".join(text.split()) if field == "name" else text.strip()})

    def weigh_against(self, runs: Sequence[RunLog], baseline: Sequence[int]) -> None:
        """Chooses the baseline of repeats; without one the rule chooses again."""
        self._describe([run.run_id for run in runs], chosen_baseline=sorted(baseline))

    def delete(self, run_ids: Sequence[int]) -> None:
        """Takes runs out of every list and figure. They stay in the file, marked, so that this can be undone."""
        from evprof.metrics.configurations.baselines import runs_text

        over = [run_id for run_id in run_ids if (run := self._controller.run(run_id)) and run.info.is_over]
        if not over:
            self.post(_NONE_CHOSEN, "info", "", None)
            return
        before, cell = self._selection.runs, self._selection.cell
        self._describe(over, is_deleted=True)
        if not set(over).isdisjoint(before):
            # Of a cell another run is typical now.
            pair = typical_pair(self._controller.runs, cell) if cell else (None, None)
            a, b = (None if run_id in over else run_id for run_id in before)
            self._selection.set_runs(*(pair if any(pair) else (a, b)), cell=cell if any(pair) else "")
        shown = self._selection.runs, self._selection.cell

        def undo() -> None:
            self.restore(over)
            if (self._selection.runs, self._selection.cell) == shown:
                self._selection.set_runs(*before, cell=cell)

        what = runs_text(over)
        self.post(f"{what[0].upper()}{what[1:]} deleted.", "info", UNDO, undo)

    def restore(self, run_ids: Sequence[int]) -> None:
        """Brings deleted runs back."""
        if not run_ids:
            self.post("No run of this session is deleted.", "info", "", None)
        self._describe(run_ids, is_deleted=False)

    def _describe(self, run_ids: Sequence[int], **facts: object) -> None:
        self._controller.describe(dict.fromkeys(run_ids, facts))


def baseline_menu(
    repeats: Sequence[RunLog],
    others: Sequence[RunLog],
    remarks: RunRemarks,
    measure: Callable[[], object] | None,
    parent: QWidget,
) -> ChoiceMenu:
    """Offers the plain runs of the same question to tick, the rule's choice, and (`measure`) three more of them."""
    from evprof.metrics.configurations.baselines import baseline_over, candidates_for
    from evprof.metrics.figures.stages import total_ms

    menu = ChoiceMenu(parent)
    baseline = baseline_over(repeats, others)
    ticked = set(baseline.run_ids if baseline else ())
    listed = candidates_for(repeats[0], others)
    rule = menu.addAction(BY_RULE)

    def choose(run_id: int, is_on: bool) -> None:
        (ticked.add if is_on else ticked.discard)(run_id)
        remarks.weigh_against(repeats, sorted(ticked))
        rule.setEnabled(bool(ticked))

    if not listed:
        menu.addAction("No plain run of the same question yet").setEnabled(False)
    for run in listed[-MOST_LISTED:]:
        took, name = total_ms(run), f" · {run.info.name}" if run.info.name else ""
        action = menu.addAction(literal(f"run {run.run_id}{name}" + ("" if took is None else f" · {ms_text(took)}")))
        action.setCheckable(True)
        action.setChecked(run.run_id in ticked)
        action.toggled.connect(lambda is_on, run_id=run.run_id: choose(run_id, is_on))
    if len(listed) > MOST_LISTED:
        menu.addAction(f"… and {len(listed) - MOST_LISTED} earlier ones").setEnabled(False)
    menu.addSeparator()
    menu.addAction(rule)
    rule.setEnabled(any(run.info.chosen_baseline for run in repeats))
    rule.triggered.connect(lambda: remarks.weigh_against(repeats, ()))
    if measure is not None:
        menu.addAction(BOTH_IN_TURNS).triggered.connect(lambda _=False: measure())
    return menu


def counted_state(runs: Mapping[int, RunLog]) -> tuple[int, int]:
    """Changes when a run that counts comes or changes, and with it a speed-up."""
    from evprof.metrics.configurations.baselines import is_counted

    counted = [run.version for run in runs.values() if is_counted(run.info)]
    return len(counted), sum(counted)
