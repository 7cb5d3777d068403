"""Edits of runs by people: names, notes, baselines and deletions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QInputDialog, QWidget

from evprof.core.recording import RecordLog
from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.metrics.arithmetic.statistics import FEWEST
from evprof.view.columns import RunPair
from ui.state.cells import typical_pair
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.widgets.choice_box import ChoiceMenu
from ui.widgets.label import literal
from ui.widgets.message_bar import UNDO
from ui.widgets.text_dialogs import ask_long_text

if TYPE_CHECKING:
    from evprof.metrics.speculation.payoff import Payoff


MOST_LISTED = 40
"""Runs that a menu lists; of more than that the last."""

BY_RULE = "As the rule chooses"

ALONE_REPEATS = FEWEST
"""Runs that are made where they lack: the fewest that give an interval."""

TARGET_ALONE = f"Run target alone ×{ALONE_REPEATS}"

Post = Callable[[str, str, str, Callable[[], None] | None], None]
"""Tells a sentence of a kind, with the word of what can be done about it and that (see `MessageBar.post`)."""

Shown = tuple[RunPair, str]
"""The runs in the columns, and the cell that they stand for, if they do."""


class RunRemarks:
    """Writes them into the session, and asks for what has to be typed. `post` is where deletions are told."""

    def __init__(self, controller: RunController, selection: Selection, window: QWidget) -> None:
        self._controller = controller
        self._selection = selection
        self._window = window
        self.post: Post = lambda *_: None

    def ask_name(self, run_ids: Sequence[int]) -> None:
        """Asks what runs are to be called; nothing gives them their mode's name back."""
        from evprof.metrics.configurations.baselines import runs_text

        if not self._has_any(run_ids):
            return
        before = self._controller.recording
        name, is_given = QInputDialog.getText(
            self._window, "Rename", f"Name of {runs_text(run_ids)}:", text=self._told(run_ids, "name")
        )
        if is_given and self._is_still(before):
            self.rename(run_ids, name)

    def rename(self, run_ids: Sequence[int], name: str) -> None:
        """Calls runs something."""
        self._say(run_ids, name=" ".join(name.split()))

    def ask_note(self, run_ids: Sequence[int]) -> None:
        """Asks for a note on runs."""
        from evprof.metrics.configurations.baselines import runs_text

        if not self._has_any(run_ids):
            return
        before = self._controller.recording
        note = ask_long_text(self._window, "Note", f"Note on {runs_text(run_ids)}:", self._told(run_ids, "note"))
        if note is not None and self._is_still(before):
            self.write_note(run_ids, note)

    def write_note(self, run_ids: Sequence[int], note: str) -> None:
        """Keeps a note on runs."""
        self._say(run_ids, note=note.strip())

    def weigh_against(self, runs: Sequence[RunLog], baseline: Sequence[int]) -> None:
        """Chooses the baseline of repeats; with none of them the rule chooses again."""
        self._say([run.run_id for run in runs], chosen_baseline=sorted(baseline))

    def delete(self, run_ids: Sequence[int]) -> None:
        """Takes runs out of every list and figure. They stay in the file, marked, so that this can be undone."""
        from evprof.metrics.configurations.baselines import runs_text

        over = [run_id for run_id in run_ids if (run := self._controller.run(run_id)) and run.info.is_over]
        if not self._has_any(over):
            return
        shown = self._selection.runs, self._selection.cell
        self._say(over, is_deleted=True)
        left = self._left(over, *shown)
        self._selection.set_runs(*left[0], cell=left[1])
        what = runs_text(over)
        self.post(f"{what[0].upper()}{what[1:]} deleted.", "info", UNDO, partial(self._undo, over, shown, left))

    def _left(self, deleted: Sequence[int], pair: RunPair, cell: str) -> Shown:
        """What the columns show without some runs: of a cell another typical one, as long as it has any."""
        a, b = (None if run_id in deleted else run_id for run_id in pair)
        if (a, b) == pair:
            return pair, cell
        runs = self._controller.runs
        rest = [run for run_id in (a, b) if (run := self._controller.run(run_id)) is not None]
        is_of_one = cell and all(run.info.cell == cell for run in rest)
        other = typical_pair(runs, cell) if is_of_one else (None, None)
        return (other, cell) if other != (None, None) else ((a, b), "")

    def restore(self, run_ids: Sequence[int]) -> None:
        """Brings deleted runs back."""
        if not run_ids:
            self.post("No run of this session is deleted.", "info", "", None)
        self._say(run_ids, is_deleted=False)

    def _undo(self, run_ids: Sequence[int], shown: Shown, left: Shown) -> None:
        self.restore(run_ids)
        if (self._selection.runs, self._selection.cell) == left:
            self._selection.set_runs(*shown[0], cell=shown[1])

    def _is_still(self, recording: RecordLog) -> bool:
        """Whether a session that was asked about is still the one on show; it is told where it is not."""
        if self._controller.recording is recording:
            return True
        self.post("Another session came meanwhile; its runs are as they were.", "info", "", None)
        return False

    def _has_any(self, run_ids: Sequence[int]) -> bool:
        """Whether there is anything to say something of; it is told where there is not."""
        if not run_ids:
            self.post("Choose a run that has ended in the list first.", "info", "", None)
        return bool(run_ids)

    def _told(self, run_ids: Sequence[int], field: str) -> str:
        """What all of these runs are told alike; "" where they differ."""
        found = {getattr(run.info, field) for run_id in run_ids if (run := self._controller.run(run_id))}
        return str(found.pop()) if len(found) == 1 else ""

    def _say(self, run_ids: Sequence[int], **facts: object) -> None:
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
        menu.addAction(TARGET_ALONE).triggered.connect(lambda _=False: measure())
    return menu


class Payoffs:
    """Worked out again for all when one more run counts or one that counts is described anew, and only for what is
    asked about."""

    def __init__(self) -> None:
        self._state: object = None
        self._is_stale = False
        self._runs: Mapping[int, RunLog] = {}
        self._keys: dict[int, Hashable] = {}
        self._pools: dict[Hashable, list[RunLog]] = {}
        self._known: dict[Hashable, Payoff | None] = {}

    def forget(self) -> None:
        """Another session has other runs of the same numbers."""
        self._state, self._runs, self._is_stale = None, {}, False
        for known in (self._keys, self._pools, self._known):
            known.clear()

    def look(self, runs: Mapping[int, RunLog]) -> None:
        """Takes the session's runs, of which some may have ended since, or been deleted, or had a baseline chosen."""
        self._runs, self._is_stale = runs, True

    @property
    def state(self) -> object:
        """Another where something else may be the answer."""
        self._look()
        return self._state

    def _look(self) -> None:
        """Looks at the runs, once somebody asks: of very many runs it takes a moment."""
        from evprof.metrics.configurations.baselines import is_counted, repeat_key

        if not self._is_stale:
            return
        self._is_stale, runs = False, self._runs
        counted = [run for run in runs.values() if is_counted(run.info)]
        state = (len(counted), sum(run.version for run in counted))
        if state == self._state:
            return
        self._state = state
        self._known.clear()
        self._pools.clear()
        for run in counted:
            if run.run_id not in self._keys:
                self._keys[run.run_id] = repeat_key(run.info)
            self._pools.setdefault(self._keys[run.run_id], []).append(run)

    def pool_of(self, run: RunLog) -> list[RunLog]:
        """The repeats of a run that count, itself among them; just the run where none does."""
        self._look()
        return self._pools.get(self._key(run)) or [run]

    def of(self, run: RunLog) -> Payoff | None:
        """Of a run that drafts, with all its repeats; None without a baseline."""
        from evprof.metrics.speculation.payoff import payoff_over

        self._look()
        key = self._key(run)
        if key not in self._pools:
            return payoff_over([run], self._runs.values())
        if key not in self._known:
            self._known[key] = payoff_over(self._pools[key], self._runs.values())
        return self._known[key]

    def _key(self, run: RunLog) -> Hashable:
        from evprof.metrics.configurations.baselines import repeat_key

        return self._keys[run.run_id] if run.run_id in self._keys else repeat_key(run.info)
