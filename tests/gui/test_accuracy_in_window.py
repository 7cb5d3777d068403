"""Right and wrong answers in the window: under the answer, in the list, in the inspector, beside the times."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtWidgets import QApplication

from evprof.core.recording import RecordLog
from evprof.core.run_log import RunLog
from evprof.view.columns import ShownModel, columns_of
from ui.columns.model_pair import ModelPair
from ui.run_facts.expected import expected_line, expected_note, right_words, verdicts_of
from ui.run_facts.figures import Cells, compare
from ui.runs.inspector import Inspector
from ui.runs.run_entries import RunEntries
from ui.state.cells import configuration_runs
from ui.state.run_controller import RunController
from ui.state.selection import Selection
from ui.style.theme import ThemeHolder
