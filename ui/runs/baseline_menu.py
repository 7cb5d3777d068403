"""The menu behind "vs runs 2, 5": which plain runs a ratio is to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtWidgets import QWidget

from evprof.core.run_log import RunLog
from evprof.core.units import ms_text
from evprof.metrics.arithmetic.statistics import FEWEST
from ui.runs.run_remarks import RunRemarks
from ui.widgets.choice_menu import ChoiceMenu
from ui.widgets.elided import literal

MOST_LISTED = 40
"""Runs that a menu lists; of more than that the last."""

BY_RULE = "As the rule chooses"

ALONE_REPEATS = FEWEST
"""Runs that are made where they lack: the fewest that give an interval."""

TARGET_ALONE = f"Run target alone ×{ALONE_REPEATS}"


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
